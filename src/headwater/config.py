"""From where the options of a node come: flags, the environment, a YAML file, and the table's defaults, in that order.

The YAML keys are those of Tarantool 3 for one instance (config/instance_config.lua): `iproto.listen`, `wal.mode`,
`snapshot.by.interval`, `database.mode`, `credentials.users`, … . Every option may also stand under `headwater` by its
own name. Reading files and the environment is the caller's; here are only texts and values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from headwater.errors import HeadwaterError
from headwater.options import RENAMED, SETTINGS, Options, Setting

ENV_PREFIX = "HEADWATER_"

_BY_PATH: Mapping[str, str] = MappingProxyType({row.yaml: row.name for row in SETTINGS.values() if row.yaml})

_WITHOUT_EFFECT = (
    "audit_log",
    "compat",
    "config",
    "console",
    "failover",
    "fiber.slice",
    "fiber.top",
    "fiber.tx_user_pool_size",
    "flightrec",
    "iproto.advertise",
    "iproto.ssl",
    "isolated",
    "labels",
    "leader",
    "lua",
    "quiver",
    "replication.autoexpel",
    "stateboard",
    "threads",
)
"""Known keys of Tarantool that configure what does not exist here: said in the log and passed over."""

_REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "app": "there is no Lua; name Python modules under headwater.procedures",
        "groups": "this is a cluster's file; give the node the instance's level of it",
        "replication.failover": "elections and coordinators are not built; leave it off",
        "roles": "there is no Lua; name Python modules under headwater.procedures",
        "roles_cfg": "there is no Lua; name Python modules under headwater.procedures",
        "session": "per-user timeouts are not there; use headwater.idle_timeout",
        "sharding": "there is no vshard",
        "wal.ext": "an option of the enterprise edition",
        "wal.retention_period": "an option of the enterprise edition",
    }
)
"""Known keys of Tarantool that would promise what is not there."""


class ConfigError(HeadwaterError, ValueError):
    """A flag, variable or key that cannot be taken; the text says which, and what to do."""


@dataclass(slots=True)
class Config:
    """What a node starts with."""

    options: Options
    credentials: Mapping[str, Any] = field(default_factory=dict)
    """`credentials` of the YAML file: users and roles to create when the node is first writable."""
    notes: list[str] = field(default_factory=list)
    """What of the file was passed over, for the log. Options without effect are `Options.ignored`."""


def configure(
    flags: Mapping[str, object], environment: Mapping[str, str], yaml_text: str | None = None, yaml_name: str = "YAML"
) -> Config:
    """The whole configuration. ConfigError for its form, BoxError (ER_CFG) for a value."""
    from_env = environment_values(environment)
    file = YamlFile()
    if yaml_text is not None:
        name = flags.get("instance_name") or from_env.get("instance_name") or "headwater"
        file = read_yaml(yaml_text, yaml_name, str(name))
    return Config(Options.load({**file.values, **from_env, **flags}), file.credentials, file.notes)


def environment_values(environment: Mapping[str, str]) -> dict[str, object]:
    """Options from `HEADWATER_<OPTION>`. An empty value counts as unset (load_cfg.lua, get_option_from_env)."""
    values: dict[str, object] = {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENV_PREFIX) or text == "":
            continue
        name = variable.removeprefix(ENV_PREFIX).lower()
        if name in _OTHER_VARIABLES:
            continue
        row = SETTINGS.get(RENAMED.get(name, name))
        if row is None:
            raise ConfigError(f"environment variable {variable}: there is no option '{name}'")
        try:
            values[row.name] = from_text(row, text)
        except ValueError as error:
            words = f'Environment variable {variable} has incorrect value for option "{row.name}": {error}'
            raise ConfigError(words) from None
    return values


_OTHER_VARIABLES = ("pure", "config", "seed", "history")
"""HEADWATER_ variables that are no options: the choice of kernels, the YAML file, and those of tests and the prompt."""


def from_text(row: Setting, text: str) -> object:
    """The value that a flag or a variable writes. ValueError says what it should be."""
    if row.is_boolean or (row.types[0] == "boolean" and text.lower() in ("true", "false")):
        return _boolean(text)
    if row.is_list:
        return _list(row, text)
    if "number" in row.types:
        number = _number(text)
        if number is None and "string" not in row.types and not row.unit.value:
            raise ValueError("should be convertible to a number")
        return text if number is None else number
    return text


def _boolean(text: str) -> bool:
    match text.lower():
        case "true" | "1" | "yes" | "on":
            return True
        case "false" | "0" | "no" | "off":
            return False
    raise ValueError('should be "true" or "false"')


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _list(row: Setting, text: str) -> object:
    if text.startswith(("{", "[")):
        try:
            return json.loads(text)
        except ValueError as error:
            raise ValueError(f"should be JSON ({error})") from None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if row.types == ("table",):
        return _map(parts)
    values = [part if (number := _number(part)) is None else number for part in parts]
    return values[0] if len(values) == 1 else values


def _map(parts: list[str]) -> dict[str, object]:
    result: dict[str, object] = {}
    for part in parts:
        key, equals, text = part.partition("=")
        if not equals:
            raise ValueError("should be in `key=value` or `value` format")
        if not key:
            raise ValueError("should be in `key=value` or `value` format, `key` must not be empty")
        number = _number(text)
        result[key] = text if number is None else number
    return result


@dataclass(slots=True)
class YamlFile:
    """What a YAML file says."""

    values: dict[str, object] = field(default_factory=dict)
    credentials: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_yaml(text: str, name: str, instance_name: str = "headwater") -> YamlFile:
    """Its options by their own names. `{{ instance_name }}` is filled in, as Tarantool does."""
    document = _parsed(text, name)
    if document is None:
        return YamlFile()
    if not isinstance(document, dict):
        raise ConfigError(f"{name}: a map of sections is expected at the top")
    file = YamlFile()
    _credentials(document, file, name)
    _log(document.get("log"), file, name)
    _mode(document.get("database"), file, name)
    for path, value in _leaves(document, ""):
        _take(path, _filled(value, instance_name), file, name)
    if isinstance(log := file.values.get("log"), str):
        file.values["log"] = _filled(log, instance_name)
    return file


def _parsed(text: str, name: str) -> object:
    """YAML 1.2's scalars: only true and false are booleans (`off` is an election mode), and 1e18 is a number."""
    import re

    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":bool", ":timestamp"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false|True|False"), list("tfTF"))
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
    )
    try:
        return yaml.load(text, Loader)  # noqa: S506 - it is a SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: not YAML: {error}") from None


def _leaves(node: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Paths and values, down to what one option takes whole."""
    for key, value in node.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and not _is_whole(path):
            yield from _leaves(value, path + ".")
        elif value is not None:
            yield path, value


def _is_whole(path: str) -> bool:
    return path in _BY_PATH or path in _REFUSED or path in _WITHOUT_EFFECT or _own(path) in SETTINGS


def _own(path: str) -> str:
    """`headwater.NAME` is the option NAME."""
    return path.removeprefix("headwater.") if path.startswith("headwater.") else ""


def _take(path: str, value: object, file: YamlFile, name: str) -> None:
    option = _BY_PATH.get(path) or _own(path)
    if option in SETTINGS:
        file.values[option] = value
    elif path == "metrics" or path.startswith("metrics."):
        file.notes.append(f"{name}: {path} has no effect: {SETTINGS['metrics'].why}")
    elif path == "replication.failover" and value == "off":
        return
    elif reason := next((_REFUSED[key] for key in _REFUSED if _below(path, key)), None):
        raise ConfigError(f"{name}: {path}: {reason}")
    elif any(_below(path, key) for key in _WITHOUT_EFFECT):
        file.notes.append(f"{name}: {path} has no effect here")
    else:
        raise ConfigError(f"{name}: unknown key '{path}'")


def _below(path: str, key: str) -> bool:
    return path == key or path.startswith(key + ".")


def _filled(value: object, instance_name: str) -> object:
    match value:
        case str():
            return value.replace("{{ instance_name }}", instance_name).replace("{{instance_name}}", instance_name)
        case list():
            return [_filled(item, instance_name) for item in value]
        case dict():
            return {key: _filled(item, instance_name) for key, item in value.items()}
    return value


def _section(value: object, path: str, name: str) -> dict[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: {path} must be a map")
    return value


def _log(value: object, file: YamlFile, name: str) -> None:
    """`log.to` and what goes with it make the option `log` (config/applier/box_cfg.lua, log_destination)."""
    log = _section(value, "log", name)
    to, path = log.pop("to", "stderr"), log.pop("file", None)
    for other in ("pipe", "syslog"):
        log.pop(other, None)
    match to:
        case "stderr":
            return
        case "file":
            file.values["log"] = f"file:{path or 'var/log/{{ instance_name }}/headwater.log'}"
        case "pipe" | "syslog":
            raise ConfigError(f"{name}: log.to: only 'stderr' and 'file' are there")
        case _:
            raise ConfigError(f"{name}: log.to: '{to}' is none of stderr, file, pipe, syslog")


def _mode(value: object, file: YamlFile, name: str) -> None:
    """`database.mode` is the option `read_only`."""
    match _section(value, "database", name).pop("mode", None):
        case None:
            return
        case "ro":
            file.values["read_only"] = True
        case "rw":
            file.values["read_only"] = False
        case other:
            raise ConfigError(f"{name}: database.mode: '{other}' is neither ro nor rw")


def _credentials(document: dict[Any, Any], file: YamlFile, name: str) -> None:
    credentials = _section(document.pop("credentials", None), "credentials", name)
    for kind in credentials:
        if kind not in ("users", "roles"):
            raise ConfigError(f"{name}: unknown key 'credentials.{kind}'")
        for who, given in _section(credentials[kind], f"credentials.{kind}", name).items():
            _credential(_section(given, f"credentials.{kind}.{who}", name), f"credentials.{kind}.{who}", name)
    file.credentials = credentials


_PRIVILEGE_KEYS = frozenset(
    {"permissions", "universe", "spaces", "functions", "sequences", "lua_eval", "lua_call", "sql"}
)


def _credential(given: dict[Any, Any], path: str, name: str) -> None:
    allowed = {"password", "privileges", "roles"} if ".users." in f"{path}." else {"privileges", "roles"}
    if unknown := set(given) - allowed:
        raise ConfigError(f"{name}: unknown key '{path}.{min(unknown, key=str)}'")
    for privilege in given.get("privileges") or []:
        entry = _section(privilege, f"{path}.privileges", name)
        if unknown := set(entry) - _PRIVILEGE_KEYS:
            raise ConfigError(f"{name}: unknown key '{path}.privileges.{min(unknown, key=str)}'")
        if not entry.get("permissions"):
            raise ConfigError(f"{name}: {path}.privileges: permissions are missing")

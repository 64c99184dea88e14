"""Do the files, or what a join brought, agree with what the options call this node (check_global_ids_integrity)?"""

from __future__ import annotations

import logging
from uuid import UUID

from headwater.box.credentials import context_of_node
from headwater.box.host import Host
from headwater.errors import Er, er
from headwater.options import Options
from headwater.store import system
from headwater.store.schema import Schema

log = logging.getLogger("headwater.box")

NAMES_SINCE = (2, 11, 5)
"""Versions of the system spaces before have no names (box.cc, schema_features)."""


def check_identity(schema: Schema, replica_id: int, options: Options) -> None:
    """UUIDs and names as they are stored. BoxError for what contradicts the options."""
    identity = schema.identity
    if not replica_id and not options.replication_anon:
        raise er(Er.UNKNOWN_REPLICA, str(identity.instance_uuid), str(identity.replicaset_uuid or UUID(int=0)))
    if replica_id and options.replication_anon:
        raise er(Er.CFG, "replication_anon", "this instance is a registered member of its replica set")
    if identity.dd_version >= NAMES_SINCE:
        _check_names(schema, replica_id, options)
    elif options.cluster_name or options.replicaset_name or options.instance_name:
        log.warning(
            "names are not stored: the system spaces are of version %s", ".".join(map(str, identity.dd_version))
        )
    if options.replicaset_uuid and str(identity.replicaset_uuid) != options.replicaset_uuid:
        raise er(Er.REPLICASET_UUID_MISMATCH, options.replicaset_uuid, str(identity.replicaset_uuid))


def _check_names(schema: Schema, replica_id: int, options: Options) -> None:
    identity = schema.identity
    if options.cluster_name and options.cluster_name != identity.cluster_name:
        raise er(Er.CLUSTER_NAME_MISMATCH, options.cluster_name, _shown(identity.cluster_name))
    if options.replicaset_name and options.replicaset_name != identity.replicaset_name:
        raise er(Er.REPLICASET_NAME_MISMATCH, options.replicaset_name, _shown(identity.replicaset_name))
    member = schema.cluster.by_id(replica_id)
    name = member.name if member is not None else ""
    if replica_id and options.instance_name and options.instance_name != name:
        raise er(Er.INSTANCE_NAME_MISMATCH, options.instance_name, _shown(name))


def _shown(name: str) -> str:
    """node_name_str"""
    return name or "<no-name>"


async def set_cluster_name(host: Host, name: str) -> None:
    """box_set_cluster_name"""
    if name != host.schema.identity.cluster_name:
        await _store(host, "cluster_name", name)


async def set_replicaset_name(host: Host, name: str) -> None:
    """box_set_replicaset_name"""
    if name != host.schema.identity.replicaset_name:
        await _store(host, "replicaset_name", name)


async def _store(host: Host, key: str, name: str) -> None:
    context_of_node(host).replace(system.SCHEMA, [key, name])
    await host.settled()

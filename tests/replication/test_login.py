"""How an applier comes to know its master."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.replication.fakemaster import ADDRESS, MASTER, SALT, FakeMaster, Stage, Visit, event, refusal

from headwater.errors import BoxError, Er, er
from headwater.replication.applier import Applier
from headwater.replication.login import address_of, is_usable
from headwater.replication.states import ApplierState, Mission
from headwater.uri import parse_uri
from headwater.wire import auth, greeting
from headwater.wire.ballot import Ballot
from headwater.wire.constants import FEATURES, Feature, Key, Type, version_id
from headwater.wire.msgpack import pack
from headwater.wire.request import decode
from headwater.wire.xrow import Row, encode_packet

S = ApplierState


def meet(master: Any, *, uri: str = ADDRESS, mission: Mission = Mission.HOLD, seconds: float = 3.0) -> Applier:
    """A node that connects to a master; `master` makes it what it is."""
    stage = Stage(replication_reconnect_timeout=1000)
    applier: Any = None

    async def main(stage: Stage) -> None:
        nonlocal applier
        master(stage.master)
        applier = stage.host.applier(uri)
        applier.start()
        applier.release(mission)
        await stage.world.tasks.sleep(seconds)
        applier.visits = stage.master.visits
        applier.stop = lambda: None

    stage.run(main)
    assert isinstance(applier, Applier)
    return applier


def failure(applier: Applier) -> BoxError:
    assert applier.error is not None
    return applier.error


def greets(data: bytes) -> Any:
    def make(master: FakeMaster) -> None:
        master.greeting = lambda visit: data

    return make


# ---- greeting ---------------------------------------------------------------------------------------


def test_greeting_tells_uuid_and_version() -> None:
    applier = meet(lambda master: setattr(master, "version", version_id(2, 11, 3)))
    assert (applier.state, applier.uuid, applier.version) == (S.CONNECTED, MASTER, version_id(2, 11, 3))
    assert applier.peer


def test_nobody_greets() -> None:
    """A listener that accepts and says nothing must not hold an applier for ever."""
    applier = meet(greets(b""), seconds=4.5)
    assert applier.state is S.DISCONNECTED
    assert failure(applier).type_name == "TimedOut"


def test_half_a_greeting() -> None:
    applier = meet(greets(b"Tarantool 3.8.0"), seconds=4.5)
    assert failure(applier).type_name == "TimedOut"


def test_something_else_answers() -> None:
    applier = meet(greets(b"HTTP/1.1 400 Bad Request\r\n" * 10))
    assert (applier.state, failure(applier).message) == (S.STOPPED, "Invalid greeting")


def test_a_text_console_answers() -> None:
    text = b"Tarantool 3.8.0 (Lua console)".ljust(63) + b"\n" + b"type 'help' for interactive help".ljust(63) + b"\n"
    applier = meet(greets(text))
    assert (applier.state, failure(applier).message) == (S.STOPPED, "Unsupported protocol for replication")


def test_a_node_without_uuid_yet_is_asked_again_later() -> None:
    applier = meet(greets(greeting.encode(version_id(3, 8, 0), UUID(int=0), SALT)))
    assert (applier.state, failure(applier).code) == (S.DISCONNECTED, Er.NIL_UUID)


def test_a_master_that_is_too_old_is_refused_by_name() -> None:
    applier = meet(lambda master: setattr(master, "version", version_id(1, 7, 7)))
    assert applier.state is S.STOPPED
    assert "Tarantool 1.7.7" in failure(applier).message


# ---- ID ---------------------------------------------------------------------------------------------


def test_an_error_in_answer_to_id_means_no_features() -> None:
    async def refuse(visit: Visit) -> None:
        visit.say(refusal(er(Er.UNKNOWN_REQUEST_TYPE, Type.ID)))

    applier = meet(lambda master: master.answers.update({Type.ID: refuse}))
    assert applier.state is S.CONNECTED
    (visit,) = applier.visits  # type: ignore[attr-defined]
    assert visit.types() == [Type.ID, Type.VOTE], "nothing says that it could be watched"


def test_without_watchers_the_ballot_is_asked_for_once() -> None:
    async def identify(visit: Visit) -> None:
        features = sorted(FEATURES - {Feature.WATCHERS})
        visit.say(Row(Type.OK, body=pack({int(Key.VERSION): 10, int(Key.FEATURES): features})))

    applier = meet(lambda master: master.answers.update({Type.ID: identify}))
    assert applier.state is S.CONNECTED
    assert [visit.types() for visit in applier.visits] == [[Type.ID, Type.VOTE]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [version_id(1, 10, 2), version_id(2, 6, 0), version_id(2, 9, 9)])
def test_an_older_master_gets_no_id_and_a_vote_before_the_login(version: int) -> None:
    applier = meet(lambda master: setattr(master, "version", version), uri=f"u:p@{ADDRESS}", mission=Mission.FOLLOW)
    types = applier.visits[0].types()  # type: ignore[attr-defined]
    assert types == [Type.VOTE, Type.AUTH, Type.SUBSCRIBE]


def test_silence_in_answer_to_id_is_the_end_of_the_connection() -> None:
    applier = meet(lambda master: master.answers.update({Type.ID: master.ignore}), seconds=4.5)
    assert (applier.state, failure(applier).type_name) == (S.DISCONNECTED, "TimedOut")


# ---- ballots ----------------------------------------------------------------------------------------


def watched(*rows: Row) -> Any:
    """Each WATCH is answered with the next of these."""

    def make(master: FakeMaster) -> None:
        async def watch(visit: Visit) -> None:
            place = visit.types().count(Type.WATCH) - 1
            if place < len(rows):
                visit.say(rows[place])

        master.answers[Type.WATCH] = watch

    return make


def test_each_event_is_answered_with_the_next_watch() -> None:
    ballots = [Ballot(is_ro=True, vclock={1: number}) for number in range(1, 4)]
    applier = meet(watched(*map(event, ballots)))
    assert applier.ballot == ballots[-1]
    assert applier.visits[1].types() == [Type.WATCH] * 4  # type: ignore[attr-defined]


def test_a_master_without_the_event_is_asked_by_vote_on_the_same_connection() -> None:
    applier = meet(watched(event(None)))
    assert applier.state is S.CONNECTED
    assert applier.ballot == Ballot(vclock={1: 1})
    assert applier.visits[1].types() == [Type.WATCH, Type.VOTE]  # type: ignore[attr-defined]


def test_an_event_that_says_nothing_is_waited_out() -> None:
    """A node that is not configured yet has an empty ballot, or its name in it."""
    later = Ballot(is_ro=True, is_booted=False)
    empty, name = event(None, body=pack({int(Key.BALLOT): {}})), event(None, body=pack({int(Key.BALLOT): {10: "a"}}))
    applier = meet(watched(empty, name, event(later)))
    assert applier.ballot is not None
    assert applier.ballot.is_booted is False


def test_neither_booted_nor_read_only_is_no_ballot() -> None:
    applier = meet(watched(event(Ballot(is_booted=False, is_ro=False))))
    assert applier.state is S.CONNECT
    assert not is_usable(Ballot(is_booted=False, is_ro=False))
    assert is_usable(Ballot(is_booted=False, is_ro=True))


def test_the_end_of_the_second_connection_ends_the_first_while_somebody_chooses() -> None:
    def make(master: FakeMaster) -> None:
        async def watch(visit: Visit) -> None:
            if visit.types().count(Type.WATCH) == 1:
                visit.say(event(master.ballot))
            else:
                visit.channel.close()

        master.answers[Type.WATCH] = watch

    assert meet(make).state is S.DISCONNECTED


def test_a_refused_watch() -> None:
    applier = meet(watched(refusal(er(Er.LOADING))))
    assert applier.state is S.DISCONNECTED
    assert failure(applier).code == Er.LOADING


@pytest.mark.parametrize("body", [b"\x91\x01", b"\x81\x29\x91\x01", b"\x81\x29\x81\x02\xa1a"])
def test_an_event_that_is_no_ballot(body: bytes) -> None:
    applier = meet(watched(event(None, body=body)))
    assert failure(applier).code == Er.INVALID_MSGPACK


def test_a_master_that_does_not_know_vote_is_taken_as_it_is() -> None:
    async def refuse(visit: Visit) -> None:
        visit.say(refusal(er(Er.UNKNOWN_REQUEST_TYPE, Type.VOTE)))

    def make(master: FakeMaster) -> None:
        master.version = version_id(1, 10, 0)
        master.answers[Type.VOTE] = refuse

    applier = meet(make)
    assert (applier.state, applier.ballot) == (S.CONNECTED, Ballot())


# ---- AUTH -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("uri", "user", "password"), [("u:p@", "u", "p"), ("guest@", "guest", "")])
def test_login_is_chap_sha1(uri: str, user: str, password: str) -> None:
    applier = meet(lambda master: None, uri=uri + ADDRESS, mission=Mission.FOLLOW)
    row = next(row for row in applier.visits[0].got if row.type == Type.AUTH)  # type: ignore[attr-defined]
    packet = encode_packet(row)
    request = decode(packet, 5, len(packet))
    assert request.function == user or user.encode() in row.body
    answer = auth.parse(request.tuple or b"")
    assert answer is not None
    assert auth.check(answer, SALT, auth.stored_hash(auth.stored_password(password)))


def test_without_a_user_there_is_no_login() -> None:
    applier = meet(lambda master: None, mission=Mission.FOLLOW)
    assert Type.AUTH not in applier.visits[0].types()  # type: ignore[attr-defined]


def test_a_wrong_password_is_tried_again() -> None:
    async def refuse(visit: Visit) -> None:
        visit.say(refusal(er(Er.CREDS_MISMATCH)))

    applier = meet(
        lambda master: master.answers.update({Type.AUTH: refuse}), uri=f"u:p@{ADDRESS}", mission=Mission.FOLLOW
    )
    assert (applier.state, failure(applier).code) == (S.LOADING, Er.CREDS_MISMATCH)


# ---- bytes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "junk", [b"\xce\x00\x00\x00\x02\xc1\xc1", b"\xc0", b"\xce\x00\x00\x00\x00", b"\x01\x80\x90", b"\xcf" + b"\xff" * 8]
)
def test_bytes_that_are_no_packet_stop_it_with_a_named_error(junk: bytes) -> None:
    async def answer(visit: Visit) -> None:
        visit.channel.write(junk)

    applier = meet(lambda master: master.answers.update({Type.ID: answer}))
    assert applier.state is S.STOPPED
    assert failure(applier).code == Er.INVALID_MSGPACK


def test_an_address_without_a_host_is_on_this_machine() -> None:
    assert address_of(parse_uri("3301")) == "localhost:3301"
    assert address_of(parse_uri("u:p@[::1]:3301")) == "[::1]:3301"
    assert address_of(parse_uri("unix/:/tmp/s")) == "unix/:/tmp/s"

"""What an election leaves on the disk (seed 003; raft.c, raft_checkpoint_local)."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.wire.synchro import RaftMessage


@dataclass(slots=True)
class Persistent:
    term: int = 1
    """The last term that this node knows of, on disk."""
    vote: int = 0
    """For whom it voted in that term; 0: nobody."""

    def take(self, message: RaftMessage) -> None:
        """A RAFT row of a file. A new term begins without a vote."""
        if message.term > self.term:
            self.term, self.vote = message.term, 0
        if message.vote:
            self.vote = message.vote

    def checkpoint(self) -> RaftMessage:
        """The row that a snapshot keeps it in: group 1, as it is this node's alone."""
        return RaftMessage(self.term, self.vote, group_id=1)

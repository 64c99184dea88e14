"""What tests share: servers as processes, a raw iproto client, an independent reader of files, faulty disks.

Nothing here imports `headwater`: these helpers judge it from outside, with their own few lines of the protocol.
"""

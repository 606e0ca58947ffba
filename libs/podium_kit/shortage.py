"""What a process may lack for a while: memory, threads, files, disk."""

import errno

SHORT_OF = {errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOSPC}
# Python has no class for it.
NO_THREAD = "can't start new thread"


def is_shortage(error: Exception) -> bool:
    """Whether this process lacks something that it may have again soon."""
    lacks = isinstance(error, OSError) and error.errno in SHORT_OF
    return lacks or isinstance(error, MemoryError) or str(error) == NO_THREAD

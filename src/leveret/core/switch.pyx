"""A flag that many compiled objects share: one of them turns it on or off, the others read it at the cost of a branch."""


cdef class Switch:
    """Off at first."""

"""The content of a message that comes in several frames, gathered in one piece.

A small one is gathered in a buffer that is used again. One that is stored outside of the log is gathered into the bytes
object that is stored: a copy of a hundred mebibytes would keep the loop from all other connections.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, _PyBytes_Resize
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdlib cimport free
from libc.string cimport memcpy

from leveret.wire.frames cimport drop, free_buffer, room


cdef class Gathering:
    """What has come of one content; the base of a channel."""

    def __dealloc__(self):
        if not self.in_whole:
            free(self.gathered.data)

    cdef int gather_header(self) except -1:
        """Begin to copy a content; one that is stored outside of the log into the very object that is stored."""
        self.in_whole = self.body_len > self.large_bytes
        if self.in_whole:
            free_buffer(&self.gathered)
        return self.gather(self.header_at, self.header_len)

    cdef int gather(self, const uint8_t* data, uint64_t size) except -1:
        """Copy what does not stay in the buffer of the connection."""
        if self.in_whole:
            self.grow_whole(size)
        if size:
            memcpy(room(&self.gathered, size), data, size)
        return 0

    cdef int grow_whole(self, uint64_t size) except -1:
        """Make room in the object; by and by, for what is announced may never come."""
        cdef uint64_t before = self.gathered.size, needed = self.gathered.size + size
        cdef PyObject* grown
        if needed <= self.gathered.capacity:
            return 0
        needed = min(needed + needed // 2, self.header_len + self.body_len)
        self.gathered = Buffer(NULL, 0, 0)      # no pointer to what may move, or be gone
        if before == 0:
            self.whole = PyBytes_FromStringAndSize(NULL, needed)
        else:
            grown = <PyObject*>self.whole
            Py_INCREF(self.whole)
            self.whole = None       # the object has one reference now: only such a one may change its size
            _PyBytes_Resize(&grown, needed)
            self.whole = <bytes>grown
            Py_DECREF(self.whole)
        self.gathered = Buffer(<uint8_t*>PyBytes_AS_STRING(self.whole), before, needed)
        return 0

    cdef bytes take_whole(self):
        """The object that was gathered into; its bytes are not ours any more."""
        cdef bytes taken = self.whole
        self.whole = None
        self.in_whole = False
        self.gathered = Buffer(NULL, 0, 0)
        return taken

    cdef void forget(self) noexcept:
        """The content was used, or is refused."""
        if self.in_whole:
            self.take_whole()
        else:
            drop(&self.gathered, self.gathered.size)

from leveret.core.queue cimport Queue

cdef int expire(Queue queue) except -1

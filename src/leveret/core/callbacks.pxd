from leveret.core.dead_lettering cimport DeadLetters
from leveret.core.engine cimport QueueCallbacks

cdef class Callbacks(QueueCallbacks):
    cdef DeadLetters dead_letters
    cdef object delete_unused

from libc.stdint cimport uint32_t, uint64_t

from leveret.core.engine cimport Engine
from leveret.core.ports cimport Entry, JournaledState
from leveret.core.queue cimport Queue
from leveret.core.snapshots cimport Placement

cdef class Restorer(JournaledState):
    cdef readonly Engine engine
    cdef readonly dict queues           # id -> Queue
    cdef readonly dict undefined        # id -> Queue whose definition has not been replayed yet
    cdef public object definitions      # leveret.core.definition_log.DefinitionLog
    cdef public object on_recovered     # called when the replay is over
    cdef Placement places
    cdef object relocation              # what is left to move out of a segment
    cdef Queue queue_of(self, uint32_t id)
    cdef int move_together(self, list entries) except -1

class EventLog:
    dropped: int

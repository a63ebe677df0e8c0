from leveret.net.admission import Admission


def admission(connections_max: int = 100, per_address_max: int = 100, half_open_max: int = 100) -> Admission:
    return Admission(connections_max, per_address_max, half_open_max)


def test_connections_are_limited() -> None:
    limited = admission(connections_max=2)
    limited.enter("192.0.2.1")
    limited.enter("192.0.2.2")
    assert limited.refusal("192.0.2.3") == "connections_max (2) is reached"
    limited.leave("192.0.2.1", logged_in=False)
    assert limited.refusal("192.0.2.3") is None


def test_connections_of_one_address_are_limited() -> None:
    limited = admission(per_address_max=1)
    limited.enter("192.0.2.1")
    assert limited.refusal("192.0.2.1") == "connections_per_ip_max (1) is reached"
    assert limited.refusal("::ffff:192.0.2.1") is not None, "the same address in other clothes"
    assert limited.refusal("192.0.2.2") is None
    limited.leave("192.0.2.1", logged_in=True)
    assert limited.refusal("192.0.2.1") is None


def test_a_customer_of_ipv6_is_one_address() -> None:
    limited = admission(per_address_max=1)
    limited.enter("2001:db8::1")
    assert limited.refusal("2001:db8::ffff") is not None
    assert limited.refusal("2001:db8:0:1::1") is None


def test_strangers_are_limited() -> None:
    limited = admission(half_open_max=1)
    limited.enter("192.0.2.1")
    assert limited.refusal("192.0.2.2") == "half_open_max (1) is reached"
    limited.log_in()
    assert limited.refusal("192.0.2.2") is None
    limited.enter("192.0.2.2")
    limited.leave("192.0.2.1", logged_in=True)
    assert limited.refusal("192.0.2.1") is not None, "the other one is still unknown"
    limited.leave("192.0.2.2", logged_in=False)
    assert (limited.connections, limited.half_open) == (0, 0)

"""CPU seconds of processes that come and go."""

from tests.bench.meter.account import Account, Key, Observed, since

DAEMON, WORKER, OTHER = (10, 1.0), (11, 2.0), (12, 3.0)


def seen(key: Key, own: float, inherited: float = 0.0, parent: Key | None = None, role: str = "postgres") -> Observed:
    return Observed(key, parent, role, role, own, inherited)


def test_a_child_that_ended_is_counted_once() -> None:
    account = Account()
    account.see([seen(DAEMON, 1.0), seen(WORKER, 4.0, parent=DAEMON)])
    account.see([seen(DAEMON, 1.0, inherited=4.5)])
    assert account.seconds() == {"postgres": 5.5}


def test_a_process_whose_parent_ended_with_it_counts_as_seen_last() -> None:
    account = Account()
    account.see([seen(DAEMON, 1.0, inherited=0.5), seen(WORKER, 4.0, parent=DAEMON)])
    account.see([])
    assert account.seconds() == {"postgres": 5.5}


def test_an_orphan_counts_on() -> None:
    account = Account()
    account.see([seen(DAEMON, 1.0), seen(WORKER, 4.0, parent=DAEMON)])
    account.see([seen(WORKER, 6.0, parent=DAEMON)])
    account.see([])
    assert account.seconds() == {"postgres": 7.0}


def test_a_child_inherits_to_the_role_of_the_children() -> None:
    account = Account()
    account.see(
        [Observed(DAEMON, None, "spark", "workers", 5.0, 0.0), seen(WORKER, 2.0, parent=DAEMON, role="workers")]
    )
    account.see([Observed(DAEMON, None, "spark", "workers", 5.0, 2.0)])
    assert account.seconds() == {"spark": 5.0, "workers": 2.0}


def test_a_window_is_what_was_added() -> None:
    assert since({"kafka": 2.0}, {"kafka": 5.0, "search": 1.0}) == {"kafka": 3.0, "search": 1.0}


def test_a_pid_that_comes_again_is_another_process() -> None:
    account = Account()
    account.see([seen(OTHER, 9.0)])
    account.see([seen((12, 8.0), 1.0)])
    assert account.seconds() == {"postgres": 10.0}

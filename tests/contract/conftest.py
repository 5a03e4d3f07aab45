import pytest
from tests.contract.backends import BACKENDS, MARKS

from polylake.storage._contract import Storage


@pytest.fixture(
    params=[pytest.param(name, id=name, marks=MARKS.get(name, ())) for name in BACKENDS]
)
def storage(request: pytest.FixtureRequest) -> Storage:
    """An empty store of every kind."""
    return BACKENDS[request.param](request)

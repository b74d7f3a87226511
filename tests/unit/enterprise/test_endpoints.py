"""The quotas of downloads: as the interface description has them."""

import pytest

from resources.enterprise import endpoints, errors
from tests.endpoints import OPERATIONS

FILES = [one for one in OPERATIONS if one.path.endswith("/download")]


@pytest.mark.parametrize("described", FILES, ids=lambda one: one.path)
def test_each_download_uses_the_quota_of_the_description(described):
    path = described.path.removesuffix("/download").replace("{date}/{hour}", "2026-11-20/05")
    assert endpoints.file_quota(path.replace("{", "").replace("}", "")) == described.quota
    assert {one.quota for one in FILES} == {None, "snapshot", "chunk"}


@pytest.mark.parametrize("identifier", ["", ".", "..", "a\ud800"])
def test_a_value_that_leads_elsewhere_is_refused(identifier):
    with pytest.raises(errors.InvalidRequest, match="not a valid record identifier"):
        endpoints.record("/v2/codes", identifier)

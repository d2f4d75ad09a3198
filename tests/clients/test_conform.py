# `entente conform` on the reference servers, unmodified, and on this one: the scores are those of docs/conform.md.

import json

import pytest
from conform_kit import PAGE, REFERENCES, SCORES, all_checked, ours, ours_running, page, scores

KEPT = json.loads(SCORES.read_text())


@pytest.fixture(scope="module")
def found():
    with ours_running() as (url, strict):
        return scores(all_checked([*REFERENCES, *ours(url, strict)]))


@pytest.mark.parametrize("title", KEPT)
def test_a_server_has_its_score(found, title):
    assert found[title] == KEPT[title]


def test_every_server_has_a_score(found):
    assert list(found) == list(KEPT)


def test_the_page_shows_the_scores():
    assert PAGE.read_text() == page(KEPT), "make conform"

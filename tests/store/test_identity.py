from typing import Any, cast

import attrs
import pytest

from store.documents.canonical import compute_digest
from store.identity import Identity, identify_cell

ONE = Identity(suite="s", case="a", case_version="1.0.0", target="agent", mode="live", exec="autonomous")
OTHER_TEXTS = [field.name for field in attrs.fields(Identity) if field.name not in {"algorithm", "pack"}]


def test_the_document_names_every_field() -> None:
    assert len(ONE.to_json()) == len(attrs.fields(Identity))


@pytest.mark.parametrize("name", OTHER_TEXTS)
def test_each_field_tells_apart_lineages_and_kin(name: str) -> None:
    other = attrs.evolve(ONE, **cast("dict[str, Any]", {name: "other"}))
    assert other.fingerprint() != ONE.fingerprint()
    assert other.kin() != ONE.kin()


def test_a_pack_is_another_lineage_of_the_same_kin() -> None:
    packed = attrs.evolve(ONE, pack="house@1f2e3d")
    assert packed.fingerprint() != ONE.fingerprint()
    assert packed.kin() == ONE.kin()


def test_kin_is_the_hash_of_the_document_without_the_pack() -> None:
    assert ONE.kin() != ONE.fingerprint()
    assert ONE.kin() == compute_digest({name: value for name, value in ONE.to_json().items() if name != "pack"}).hex()


def test_the_columns_of_a_cell_are_those_of_its_identity() -> None:
    identity = attrs.evolve(ONE, pack="house", profile="careful", variant="v", target="t")
    cell = identify_cell(identity, suite_version="2", content={}, config_hash="c", provider="p", model="m", extra=1)
    assert (cell.pack, cell.profile, cell.variant, cell.target) == ("house", "careful", "v", "t")
    assert (cell.fingerprint, cell.digest) == (identity.fingerprint(), digest_of(identity))


def digest_of(identity: Identity) -> bytes:
    document = {"identity": identity.to_json(), "content": {}, "configHash": "c", "provider": "p", "model": "m"}
    return compute_digest(document | {"extra": 1})

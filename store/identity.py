"""Identity of a cell: the key that joins its results over weeks and models into one history.

Both hashes are SHA-256 over canonical JSON (RFC 8785). Stored results can never be repaired: a change of the document
needs a new `FINGERPRINT_VERSION`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from store.documents.canonical import compute_digest, encode_canonical
from store.rows import CellRow

if TYPE_CHECKING:
    from store.events import Json

FINGERPRINT_VERSION = 1
NO_PACK = "none"
NO_PROFILE = "none"


@attrs.frozen(kw_only=True)
class Identity:
    """The part of a cell that stays fixed while content, configuration and model change. Absent texts are empty."""

    algorithm: int = FINGERPRINT_VERSION
    suite: str
    case: str
    case_version: str
    rubric_version: str = ""
    target: str
    """The measured subject: `agent`, `decision`, or the name of an agent program."""
    variant: str = ""
    pack: str = NO_PACK
    """With its ref."""
    profile: str = NO_PROFILE
    mode: str
    """`live`, `replay` or `offline`."""
    exec: str
    """The target's way of working: `autonomous` or `flow`."""
    subject_version: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return the hashed document, as a cell stores it."""
        return {
            "algorithm": self.algorithm,
            "suite": self.suite,
            "case": self.case,
            "caseVersion": self.case_version,
            "rubricVersion": self.rubric_version,
            "target": self.target,
            "variant": self.variant,
            "pack": self.pack,
            "profile": self.profile,
            "mode": self.mode,
            "exec": self.exec,
            "subjectVersion": self.subject_version,
        }

    def fingerprint(self) -> str:
        """Compute the hex SHA-256 of the document, without the model: a lineage is (fingerprint, requested model)."""
        return compute_digest(self.to_json()).hex()

    def kin(self) -> str:
        """Compute the hex SHA-256 of the document without `pack`: equal for cells that differ at most in their pack.

        The lift of a pack compares kin of one model: those with a pack against the one without. It equals no
        fingerprint, since every fingerprint's document names a pack.
        """
        document = self.to_json()
        del document["pack"]
        return compute_digest(document).hex()


def identify_cell(
    identity: Identity,
    *,
    suite_version: str,
    content: Mapping[str, Json],
    config_hash: str,
    provider: str,
    model: str,
    **more: Json,
) -> CellRow:
    """Make the row of a planned cell; its digest is the SHA-256 of a document with every field of its identity.

    Args:
        identity: of the cell.
        suite_version: of the suite or lab.
        content: hashes of the files and texts that a run works on.
        config_hash: of the measured configuration.
        provider: name of the provider; empty for none.
        model: name of the requested model; empty for none.
        more: further fields of the document.
    """
    document = {
        "identity": identity.to_json(),
        "content": dict(content),
        "configHash": config_hash,
        "provider": provider,
        "model": model,
        **more,
    }
    return CellRow(
        digest=compute_digest(document),
        fingerprint=identity.fingerprint(),
        fingerprint_version=identity.algorithm,
        config_hash=config_hash,
        suite_id=identity.suite,
        suite_version=suite_version,
        case_id=identity.case,
        case_version=identity.case_version,
        variant=identity.variant,
        target=identity.target,
        model=model,
        pack=identity.pack,
        profile=identity.profile,
        document=encode_canonical(document).decode(),
    )

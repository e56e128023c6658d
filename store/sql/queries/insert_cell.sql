INSERT INTO cell (digest, fingerprint, fingerprint_version, config_hash, suite_id, suite_version, case_id, case_version,
  variant, target, model, pack, profile, document)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

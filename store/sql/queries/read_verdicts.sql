-- The verdicts on some attempts (a JSON list of ids): the last pass of each, in the order in which the verifiers ran.
SELECT v.attempt_id, v.verifier, v.kind, v.verdict, v.score, v.detail
FROM json_each(:attempts) wanted CROSS JOIN verdict v ON v.attempt_id = wanted.value
WHERE v.pass_no = (SELECT max(p.pass_no) FROM verdict p WHERE p.attempt_id = v.attempt_id)
ORDER BY v.id

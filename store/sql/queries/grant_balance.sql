SELECT seq, total_calls, total_tokens, total_nusd FROM spend WHERE sweep_id = ? ORDER BY seq DESC LIMIT 1

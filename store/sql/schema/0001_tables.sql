-- The store, schema 1. Times: INTEGER microseconds UTC. Money: INTEGER nano-USD. Absent = NULL, never 0.
-- History tables are append-only: the guards are in 0001_guards.sql, and `lease` is the one mutable table.

-- 1. identity: one row per distinct measured thing, shared by all sweeps (content addressed)
CREATE TABLE cell (
  id            INTEGER PRIMARY KEY,
  digest        BLOB NOT NULL UNIQUE,            -- sha256 of the whole document: identity + content hashes + config hash
  fingerprint   TEXT NOT NULL,                   -- lineage: sha256 hex of the identity part (without the model)
  fingerprint_version INTEGER NOT NULL,
  config_hash   TEXT NOT NULL,
  suite_id TEXT NOT NULL, suite_version TEXT NOT NULL,
  case_id  TEXT NOT NULL, case_version  TEXT NOT NULL,
  variant  TEXT NOT NULL,
  target   TEXT NOT NULL, model TEXT NOT NULL,
  pack TEXT NOT NULL DEFAULT 'none', profile TEXT NOT NULL DEFAULT 'none',
  document TEXT NOT NULL                         -- canonical JSON: explains a fingerprint field by field
) STRICT;
CREATE INDEX cell_lineage ON cell(fingerprint);
CREATE INDEX cell_case    ON cell(suite_id, case_id, variant);

-- 2. plan
CREATE TABLE sweep (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,          -- name: sortable, shown to people
  command TEXT NOT NULL, purpose TEXT NOT NULL DEFAULT 'sweep',  -- 'sweep' | 'record' | 'ci' | 'compare-ref' | 'demo' | 'import': only 'sweep' and 'import' enter drift
  suite_id TEXT NOT NULL, mode TEXT NOT NULL CHECK (mode IN ('live','replay','offline')),
  seed INTEGER NOT NULL, repetitions INTEGER NOT NULL,
  planned_at INTEGER NOT NULL, runs INTEGER NOT NULL,         -- plan size: status needs no COUNT
  conditions TEXT NOT NULL                                    -- JSON: git, harness, settings, sandbox, prices, stop rule
) STRICT;
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  sweep_id INTEGER NOT NULL REFERENCES sweep, position INTEGER NOT NULL,
  cell_id INTEGER NOT NULL REFERENCES cell, repetition INTEGER NOT NULL,
  pair INTEGER NOT NULL,                                      -- same case and repetition over all variants: claimed whole
  UNIQUE (sweep_id, position)                                 -- the stored order
) STRICT;
CREATE UNIQUE INDEX run_identity ON run(sweep_id, cell_id, repetition);

-- 3. execution
CREATE TABLE worker (                                         -- one process that executes
  id INTEGER PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, boot TEXT NOT NULL, born INTEGER NOT NULL,  -- born: clock ticks since boot, tells a reused pid
  version TEXT NOT NULL, started_at INTEGER NOT NULL
) STRICT;
CREATE TABLE lease (                                          -- THE mutable table: one row per live process, not per attempt
  worker_id INTEGER PRIMARY KEY REFERENCES worker, expires_at INTEGER NOT NULL
) STRICT;
CREATE TABLE attempt (                                        -- a claim; its number is the fencing token
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run, number INTEGER NOT NULL,
  worker_id INTEGER NOT NULL REFERENCES worker, claimed_at INTEGER NOT NULL,
  UNIQUE (run_id, number)
) STRICT;
CREATE TABLE event (                                          -- of an attempt; rows are segments, not deltas
  attempt_id INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,  -- at: ms since the attempt was claimed
  kind TEXT NOT NULL, payload TEXT NOT NULL, blob_id INTEGER,
  PRIMARY KEY (attempt_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE notice (                                         -- events of no attempt: limits, breaker, control, warnings
  id INTEGER PRIMARY KEY, sweep_id INTEGER NOT NULL REFERENCES sweep, worker_id INTEGER,
  at INTEGER NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL
) STRICT;
CREATE INDEX notice_of ON notice(sweep_id, id);
CREATE TABLE outcome (                                        -- how each attempt ended: what it measured and cost, duplicates too
  attempt_id INTEGER PRIMARY KEY REFERENCES attempt, run_id INTEGER NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('pass','fail','budget_exceeded','error','skipped')),
  reason TEXT, started_at INTEGER, ended_at INTEGER NOT NULL,   -- started_at: start of work, not the claim
  decision_status TEXT CHECK (decision_status IN ('ok','abstain','error')),   -- decision labs only
  wall_ms INTEGER, waited_ms INTEGER, turns INTEGER, tool_calls INTEGER, calls INTEGER,
  input_tokens INTEGER, output_tokens INTEGER, cached_tokens INTEGER, cache_write_tokens INTEGER, reasoning_tokens INTEGER,
  cost_nusd INTEGER, cost_source TEXT, model_resolved TEXT,
  detail TEXT NOT NULL DEFAULT '{}',
  CHECK ((outcome IN ('error','skipped','budget_exceeded')) <= (reason IS NOT NULL))
) STRICT;

CREATE TABLE file_change (                                    -- what an attempt changed in its workspace
  attempt_id INTEGER NOT NULL REFERENCES attempt, path TEXT NOT NULL,
  change TEXT NOT NULL CHECK (change IN ('added','changed','deleted')),
  mode INTEGER, link TEXT, blob_id INTEGER REFERENCES blob,
  PRIMARY KEY (attempt_id, path)
) STRICT, WITHOUT ROWID;

-- 4. judgement
CREATE TABLE verdict (
  id INTEGER PRIMARY KEY, attempt_id INTEGER NOT NULL REFERENCES attempt, pass_no INTEGER NOT NULL DEFAULT 0, -- 0 = with the run; >0 verify/rejudge
  verifier TEXT NOT NULL, kind TEXT NOT NULL, verdict TEXT NOT NULL CHECK (verdict IN ('pass','fail','error')),
  score REAL CHECK (score BETWEEN 0 AND 1), detail TEXT NOT NULL DEFAULT '{}',
  UNIQUE (attempt_id, pass_no, verifier)
) STRICT;
CREATE TABLE judgement (
  verdict_id INTEGER NOT NULL REFERENCES verdict, judge TEXT NOT NULL, criterion TEXT NOT NULL,
  score REAL CHECK (score BETWEEN 0 AND 1), detail TEXT NOT NULL DEFAULT '{}',
  PRIMARY KEY (verdict_id, judge, criterion)
) STRICT, WITHOUT ROWID;
CREATE TABLE result (                                         -- what counts: a chain per run; the two unique indices make
  id INTEGER PRIMARY KEY,                                     -- "exactly one current result per run" a constraint, not a habit
  run_id INTEGER NOT NULL REFERENCES run, attempt_id INTEGER NOT NULL REFERENCES attempt,
  supersedes INTEGER REFERENCES result,
  sweep_id INTEGER NOT NULL, cell_id INTEGER NOT NULL,        -- copied from run: the query keys
  outcome TEXT NOT NULL CHECK (outcome IN ('pass','fail','budget_exceeded','error','skipped')), reason TEXT,
  judged INTEGER NOT NULL CHECK (judged IN (0,1)),            -- in the denominator of rates (policy decided once, at write)
  again  INTEGER NOT NULL CHECK (again  IN (0,1)),            -- resume has to run it again
  composite REAL CHECK (composite BETWEEN 0 AND 1),
  at INTEGER NOT NULL,                                        -- when the run ended (a re-judgement keeps it)
  basis TEXT NOT NULL DEFAULT 'run',                          -- run | retry | verify | rejudge | invalidate
  CHECK (supersedes < id)
) STRICT;
CREATE UNIQUE INDEX result_chain ON result(run_id, ifnull(supersedes,0));  -- one first result, one successor each; NOT partial: it also serves lookups by run
CREATE UNIQUE INDEX result_next  ON result(supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX result_series ON result(cell_id, at, judged, outcome, composite);
CREATE INDEX result_sweep  ON result(sweep_id, cell_id, judged, outcome, composite);

-- 5. money, control, text
CREATE TABLE spend (                                          -- each row carries the running totals: reading the balance is one seek
  sweep_id INTEGER NOT NULL REFERENCES sweep, seq INTEGER NOT NULL,
  worker_id INTEGER NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('grant','settle','reclaim')),
  calls INTEGER NOT NULL, tokens INTEGER NOT NULL, nusd INTEGER NOT NULL,          -- signed change
  total_calls INTEGER NOT NULL, total_tokens INTEGER NOT NULL, total_nusd INTEGER NOT NULL,
  at INTEGER NOT NULL, PRIMARY KEY (sweep_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE control (
  id INTEGER PRIMARY KEY, sweep_id INTEGER NOT NULL REFERENCES sweep,
  verb TEXT NOT NULL CHECK (verb IN ('pause','continue','cancel','raise_cap','acknowledge')),
  who TEXT NOT NULL, why TEXT NOT NULL, payload TEXT NOT NULL DEFAULT '{}', at INTEGER NOT NULL
) STRICT;
CREATE INDEX control_of ON control(sweep_id, id);
CREATE TABLE blob (
  id INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, codec TEXT NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE TABLE forgotten (blob_id INTEGER PRIMARY KEY, hash BLOB NOT NULL, who TEXT NOT NULL, why TEXT NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- 6. views
CREATE VIEW current AS
  SELECT r.* FROM result r WHERE NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id);
CREATE VIEW unfinished AS                                      -- what resume has to do
  SELECT run.* FROM run WHERE NOT EXISTS (
    SELECT 1 FROM result r WHERE r.run_id = run.id AND r.again = 0
       AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id));
CREATE TRIGGER result_same_run BEFORE INSERT ON result WHEN NEW.supersedes IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM result p WHERE p.id = NEW.supersedes AND p.run_id = NEW.run_id)
  BEGIN SELECT RAISE(ABORT, 'result: supersedes a result of another run'); END;
CREATE TRIGGER outcome_of_its_run BEFORE INSERT ON outcome
  WHEN NOT EXISTS (SELECT 1 FROM attempt a WHERE a.id = NEW.attempt_id AND a.run_id = NEW.run_id)
  BEGIN SELECT RAISE(ABORT, 'outcome: attempt of another run'); END;
CREATE TRIGGER result_of_its_run BEFORE INSERT ON result WHEN NOT EXISTS (SELECT 1 FROM attempt a JOIN run r ON r.id=a.run_id WHERE a.id=NEW.attempt_id AND r.id=NEW.run_id AND r.sweep_id=NEW.sweep_id AND r.cell_id=NEW.cell_id)
  BEGIN SELECT RAISE(ABORT,'result: attempt, sweep or cell of another run'); END;

-- Types of the contract.

CREATE TYPE gen_durable.durable_status AS ENUM
  ('runnable', 'executing', 'awaiting_signal', 'awaiting_children', 'done', 'failed', 'cancelled');
COMMENT ON TYPE gen_durable.durable_status IS
  'Life of an instance: runnable (waits for a worker), executing (claimed), awaiting_signal and awaiting_children (parked), and the terminal done, failed and cancelled.';

CREATE TYPE gen_durable.job AS (
  token            uuid,
  id               bigint,
  fsm              text,
  fsm_version      int,
  step             text,
  state            jsonb,
  attempt          int,
  awaited          jsonb,
  signals          jsonb,
  children         jsonb,
  queue            text,
  concurrency_key  text,
  lease_expires_at timestamptz
);
COMMENT ON TYPE gen_durable.job IS 'One claimed step, as pick and take hand it to a worker.';
COMMENT ON COLUMN gen_durable.job.token IS 'Proof of the claim: complete, heartbeat and release take it. New at every claim.';
COMMENT ON COLUMN gen_durable.job.id IS 'The instance.';
COMMENT ON COLUMN gen_durable.job.fsm IS 'Name of its machine.';
COMMENT ON COLUMN gen_durable.job.fsm_version IS 'Version of its machine; an instance ends on the version it began with.';
COMMENT ON COLUMN gen_durable.job.step IS 'The step to run.';
COMMENT ON COLUMN gen_durable.job.state IS 'The instance''s state.';
COMMENT ON COLUMN gen_durable.job.attempt IS 'How often this step was tried before: 0 at the first try.';
COMMENT ON COLUMN gen_durable.job.awaited IS 'The signals that the instance was parked for: array of {id, name, payload, at}, by id, at most gen_durable.job_rows.';
COMMENT ON COLUMN gen_durable.job.signals IS 'All signals in the inbox: array of {id, name, payload, at}, by id, at most gen_durable.job_rows; inbox() pages through the rest.';
COMMENT ON COLUMN gen_durable.job.children IS 'Children of all fan-outs so far: array of {id, fsm, status, state, result, error}, by id, at most gen_durable.job_rows; children() pages through the rest.';
COMMENT ON COLUMN gen_durable.job.queue IS 'The queue that it was claimed from.';
COMMENT ON COLUMN gen_durable.job.concurrency_key IS 'The concurrency key that the claim holds, if any.';
COMMENT ON COLUMN gen_durable.job.lease_expires_at IS 'When the claim may be taken away unless heartbeat extends it.';

CREATE TYPE gen_durable.child AS (
  id bigint, fsm text, status gen_durable.durable_status, state jsonb, result jsonb, error text
);
COMMENT ON TYPE gen_durable.child IS 'One child of an instance, as children() pages through them.';
COMMENT ON COLUMN gen_durable.child.id IS 'The child''s id.';
COMMENT ON COLUMN gen_durable.child.fsm IS 'Name of the child''s machine.';
COMMENT ON COLUMN gen_durable.child.status IS 'The child''s status.';
COMMENT ON COLUMN gen_durable.child.state IS 'The child''s state.';
COMMENT ON COLUMN gen_durable.child.result IS 'What the child was done with, if it is done.';
COMMENT ON COLUMN gen_durable.child.error IS 'Why the child failed or was cancelled, if it did.';

CREATE TYPE gen_durable.inbox_signal AS (id bigint, name text, payload jsonb, at timestamptz);
COMMENT ON TYPE gen_durable.inbox_signal IS 'One signal in an inbox, as inbox() pages through them.';
COMMENT ON COLUMN gen_durable.inbox_signal.id IS 'The signal''s id.';
COMMENT ON COLUMN gen_durable.inbox_signal.name IS 'The signal''s name.';
COMMENT ON COLUMN gen_durable.inbox_signal.payload IS 'What was sent with it.';
COMMENT ON COLUMN gen_durable.inbox_signal.at IS 'When it was sent.';

-- channel: the channel on which listeners hear of a queue. D-23
\pset format unaligned
\pset tuples_only on
\set VERBOSITY verbose
SET search_path = gen_durable, t;

SELECT channel('mails'), channel('a "b".c');

-- A channel has room for 63 bytes: a longer name's has a hash, and none is cut.
SELECT channel(repeat('x', 51)) = 'gen_durable.' || repeat('x', 51), channel(repeat('x', 52)) ~ '^gen_durable#[0-9a-f]{16}$';
SELECT channel(repeat('é', 25)) = 'gen_durable.' || repeat('é', 25), channel(repeat('é', 26)) ~ '^gen_durable#[0-9a-f]{16}$';
SELECT max(octet_length(channel(repeat('x', n)))), count(DISTINCT channel(repeat('x', n))) FROM generate_series(1, 255) n;
SELECT channel(queue => repeat('x', 255)) = channel(repeat('x', 255));

\set VERBOSITY sqlstate
SELECT channel('');
SELECT channel(repeat('x', 256));
SELECT channel(NULL);

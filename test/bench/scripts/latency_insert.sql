\set pause random(2, 20)
\sleep :pause ms
WITH new AS (SELECT id FROM gen_durable.insert('bench', queue => 'bench')) INSERT INTO bench.inserted SELECT id FROM new;

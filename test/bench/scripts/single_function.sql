SELECT coalesce('[' || string_agg('{"outcome": "next", "step": "a", "token": "' || token || '"}', ', ') || ']', '[]') AS outcomes
FROM gen_durable.complete_and_take((:outcomes)::jsonb, 'bench', 'w', 1) \gset

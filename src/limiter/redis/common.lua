-- What every script does first: look at the era, and at the clock.
--
-- An era is a time in which this Redis forgot nothing: it ends when the server starts again (its run_id is another) or
-- when its data are gone. The first who meets a new era cannot know which slots are held, nor which tokens were spent:
-- until every database has had the time to tell which slots it holds, gates admit nobody, and rate limits begin empty.
-- If nobody came for a while, as when the server or its machine stood still, no holder could renew: nobody's slot is
-- taken away until all have had the time.
--
-- All should come with the same lease, but do not while it is being changed. So the longest and the shortest are kept, of
-- this turn and of the one before: a turn is longer than the longest lease, so whoever holds slots comes in each, and what
-- nobody comes with any more is forgotten.
--
-- KEYS[1] the era; ARGV[1] the server's run_id, or nothing: then it is asked for here; ARGV[2] the lease of slots in
-- microseconds.
local era = KEYS[1]
local run = ARGV[1] ~= '' and ARGV[1] or string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local lease = tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local known = redis.call('HMGET', era, 'run', 'begun', 'seen', 'closed', 'keep', 'turn', 'longest', 'shortest',
  'longest_before', 'shortest_before')
local begun, closed, keep, turn = tonumber(known[2]), tonumber(known[4]), tonumber(known[5]), tonumber(known[6]) or now
local longest, shortest = math.max(tonumber(known[7]) or lease, lease), math.min(tonumber(known[8]) or lease, lease)
local longest_before, shortest_before = tonumber(known[9]) or lease, tonumber(known[10]) or lease

local function whole(number) return string.format('%.0f', number) end

if now < turn or now - turn > math.max(longest, longest_before) then
  turn, longest_before, shortest_before, longest, shortest = now, longest, shortest, lease, lease
end
local wait = math.max(longest, longest_before)
if known[1] ~= run then
  begun, closed, keep = now, now + wait, now + wait
  redis.call('HSET', era, 'run', run, 'begun', whole(begun), 'closed', whole(closed),
    'ticket', whole((clock[1] * 1000 + math.floor(clock[2] / 1000)) % 1000000000 + 1))
elseif now < tonumber(known[3]) or now - tonumber(known[3]) > math.min(shortest, shortest_before) * 2 / 3 then
  keep = now + wait
end
redis.call('HSET', era, 'seen', whole(now), 'keep', whole(keep), 'turn', whole(turn), 'longest', whole(longest),
  'shortest', whole(shortest), 'longest_before', whole(longest_before), 'shortest_before', whole(shortest_before))

-- Slots that are free. The score of a holder is the end of its lease.
local function slots(key, capacity)
  if now >= keep then redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. whole(now)) end
  if now < closed then return 0 end
  return capacity - redis.call('ZCARD', key)
end

-- Tokens that are there. What was there before the era counts for nothing.
local function tokens(key, capacity, rate)
  local was = redis.call('HMGET', key, 'tokens', 'at')
  local left, at = tonumber(was[1]), tonumber(was[2])
  if not left or at < begun then left, at = 0, begun end
  return math.min(capacity, left + math.max(0, now - at) / 1000000 * rate), math.max(at, now)
end

-- How long a gate is kept without anybody coming.
local function hold(key, ticket)
  redis.call('ZADD', key, whole(now + lease), ticket)
  redis.call('EXPIRE', key, 604800)
end

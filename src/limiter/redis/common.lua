-- What every script does first: look at the era, and at the clock.
--
-- An era is a time in which this Redis forgot nothing: it ends when the server starts again (its run_id is another) or
-- when its data are gone. The first who meets a new era cannot know which slots are held, nor which tokens were spent:
-- until every database has had the time to tell which slots it holds, gates admit nobody, and rate limits begin empty.
-- If nobody came for a while, as when the server or its machine stood still, no holder could renew: nobody's slot is
-- taken away until all have had the time.
--
-- KEYS[1] the era; ARGV[1] the server's run_id; ARGV[2] the lease of slots in microseconds.
local era = KEYS[1]
local lease = tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local known = redis.call('HMGET', era, 'run', 'begun', 'seen', 'closed', 'keep', 'longest', 'shortest')
local begun, closed, keep = tonumber(known[2]), tonumber(known[4]), tonumber(known[5])
local longest = math.max(tonumber(known[6]) or lease, lease)
local shortest = math.min(tonumber(known[7]) or lease, lease)

local function whole(number) return string.format('%.0f', number) end

if known[1] ~= ARGV[1] then
  begun, closed, keep = now, now + longest, now + longest
  redis.call('HSET', era, 'run', ARGV[1], 'begun', whole(begun), 'closed', whole(closed),
    'ticket', whole((clock[1] * 1000 + math.floor(clock[2] / 1000)) % 1000000000 + 1))
elseif now < tonumber(known[3]) or now - tonumber(known[3]) > shortest * 2 / 3 then
  keep = now + longest
end
redis.call('HSET', era, 'seen', whole(now), 'keep', whole(keep), 'longest', whole(longest), 'shortest', whole(shortest))

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

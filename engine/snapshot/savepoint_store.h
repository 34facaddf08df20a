// Savepoints of one shard: copies that the shard makes of itself while training goes on, so that a
// job that loses a pserver goes back by seconds and not by a pass. A savepoint is full, or contains
// what changed since the savepoint before it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace paddle::snapshot {

constexpr std::uint64_t kSavepointRecordBytesMax = 64ULL << 20U;

// The shard's thread makes all calls, except that any thread may call whole().
class SavepointStore {
 public:
  virtual ~SavepointStore() = default;

  // Begins the savepoint of this number, which rises from savepoint to savepoint. A savepoint that
  // has begun and not ended is dropped. REQUIRES: `is_full`, or the newest savepoint has ended,
  // has_failed() is false, and this savepoint follows it. If that savepoint fails later, the
  // savepoints that follow it fail, too.
  virtual void begin(std::uint64_t number, bool is_full) = 0;
  // Adds a record to the savepoint. The shard chooses `kind`, except for 2^32 - 1. Returns at once:
  // the bytes are written later, or dropped if the savepoint has failed.
  virtual void add(std::uint32_t kind, Bytes payload) = 0;
  // Ends the savepoint: it has all its records. It is whole once it is durable.
  virtual void end() = 0;
  // Bytes added that are not written yet.
  virtual std::uint64_t backlog() const = 0;
  // Whether the newest savepoint could not be written; begin() then tries again, with a full one.
  virtual bool has_failed() const = 0;

  // Numbers of the savepoints that can be read, ascending.
  virtual std::vector<std::uint64_t> whole() const = 0;
  // Calls use(kind, payload) for each record of the full savepoint that `number` builds on, then
  // for each record of the savepoints that follow, up to `number`. Stops at the first error of
  // `use`. kData if a file is not as it was written: that savepoint and those that build on it are
  // not whole then.
  using Use = std::function<Status(std::uint32_t kind, ByteSpan payload)>;
  virtual Status read(std::uint64_t number, const Use& use) = 0;
  // forget_before() removes the savepoints that neither `number` nor a later savepoint builds on.
  // forget_after() durably removes the savepoints after `number`, and the one that has begun and
  // not ended.
  virtual void forget_before(std::uint64_t number) = 0;
  virtual Status forget_after(std::uint64_t number) = 0;
};

}  // namespace paddle::snapshot

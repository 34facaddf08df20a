// Cuts of one shard: its own copies of itself, written while training goes on, so that a job that
// lost a pserver goes back by seconds and not by a pass. A cut is full, or holds what changed since
// the one before it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace paddle::snapshot {

constexpr std::uint64_t kCutRecordBytesMax = 64ULL << 20U;

// For the shard's thread, but for whole(), which any thread may call.
class CutStore {
 public:
  virtual ~CutStore() = default;

  // Begins the cut of this number, which rises from cut to cut. A cut that has no end yet
  // is dropped. It is full unless the newest cut has its end and has not failed, and this one
  // follows it. One that fails after has_failed() was asked takes those that follow it along.
  virtual void begin(std::uint64_t number, bool is_full) = 0;
  // A record of the cut; `kind` is the shard's, and not 2^32 - 1. Returns at once: the bytes are
  // written later, or dropped when the cut has failed.
  virtual void add(std::uint32_t kind, Bytes payload) = 0;
  // The cut has all its records. It is whole once it is durable.
  virtual void end() = 0;
  // Bytes added that are not written yet.
  virtual std::uint64_t backlog() const = 0;
  // The newest cut could not be written; begin() tries again, with a full one.
  virtual bool has_failed() const = 0;

  // Steps of the cuts that can be read, ascending.
  virtual std::vector<std::uint64_t> whole() const = 0;
  // Calls use(kind, payload) for each record of the full cut that `number` builds on, then of those
  // that follow up to `number`. Stops at its first error. kData when a file is not as it was
  // written: that cut and those that build on it are no longer whole.
  using Use = std::function<Status(std::uint32_t kind, ByteSpan payload)>;
  virtual Status read(std::uint64_t number, const Use& use) = 0;
  // Removes cuts that neither `number` nor a later one builds on; and those after `number`,
  // durably, with the one that has no end yet.
  virtual void forget_before(std::uint64_t number) = 0;
  virtual Status forget_after(std::uint64_t number) = 0;
};

}  // namespace paddle::snapshot

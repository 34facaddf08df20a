// Options of a shard, and its limits.
#pragma once

#include "base/pool.h"
#include "engine/math/region.h"
#include "engine/pserver/update_policy.h"
#include "engine/snapshot/savepoint_store.h"
#include "engine/table/loans.h"

namespace paddle::pserver {

constexpr std::uint32_t kTrainersMax = 4096;
constexpr std::uint32_t kPushPartsMax = 4096;
constexpr std::uint64_t kMergedBatchesMax = 1ULL << 20U;   // in one push
constexpr std::uint64_t kPushBytesMax = 4ULL << 30U;       // one trainer's batch on one shard
constexpr std::uint64_t kTransferBytesMax = 32ULL << 20U;  // tail of one frame, both ways
constexpr std::size_t kParameterSetBytesMax = 4U << 20U;
// Values of one pull of a reader, unless one row has more: a trainer may wait for that long.
constexpr std::uint64_t kReaderPullBytesMax = 1U << 20U;
// Time for trainers that are computing to receive the reason why the job has failed.
constexpr Duration kFailureLinger = std::chrono::seconds(5);
// Grace of a lost trainer when another one has left, so that its next process only has to leave, or
// when the job is to stop.
constexpr Duration kLastTrainerGrace = std::chrono::seconds(30);
// server_generation of a pserver's first process.
constexpr std::uint64_t kFirstIncarnation = 1;
constexpr Duration kNoticePeriod = std::chrono::seconds(1);  // between Waiting frames

// Opens the store for the savepoints of the shard with this fingerprint, which differs from the
// fingerprints of other shards and jobs.
using OpenSavepoints =
    std::function<Result<std::unique_ptr<snapshot::SavepointStore>>(std::uint64_t fingerprint)>;

struct ShardOptions {
  UpdatePolicyFactory make_policy = nullptr;  // required
  std::uint32_t index = 0;                    // among all dense, or all sparse, shards of the job
  bool is_sparse = false;
  std::uint32_t num_gradient_servers = 1;  // 1 to kTrainersMax
  std::uint64_t job_tag = 0;
  std::uint64_t server_generation = 0;  // frames for another generation are refused
  Duration lost_trainer_grace = Duration::zero();
  bool needs_all_trainers = false;                    // a lost trainer ends an asynchronous job too
  std::uint64_t bytes_max = 1ULL << 40U;              // parameters and optimizer state
  std::shared_ptr<parameter::DenseLoan> loan = {};    // for a dense shard; null: values are sent
  std::shared_ptr<parameter::RowLoan> row_loan = {};  // for a sparse shard; null: rows are sent
  Parallel parallel = {};              // helps with many elements or rows; empty: the port's thread
  MemoryPreparer* preparer = nullptr;  // for sparse tables; outlives the shard
  OpenSavepoints open_savepoints = nullptr;  // null: no savepoints are made
};

}  // namespace paddle::pserver

// Snapshots that a job saves while it trains: trainer 0's, full or as deltas, at the ends of passes
// and at a stop; full copies of them on other nodes, under the same names; and which of them stay.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/client/parameter_client.h"
#include "engine/snapshot/info.h"
#include "engine/trainer/loop_options.h"
#include "engine/trainer/report.h"

namespace paddle::trainer {

// "<save_dir>/pass-00007"
std::string pass_directory(const std::string& save_dir, std::uint32_t pass);
// "<save_dir>/pass-00007-000120", after so many batches of trainer 0 (v0.10's pass-%05d-%03d)
std::string stop_directory(const std::string& save_dir, std::uint32_t pass, std::uint64_t batch);

// The snapshots that one process saves at ends of passes: full ones, and deltas based on them.
class SnapshotSeries {
 public:
  // full_period: as train.full_snapshot_period.
  explicit SnapshotSeries(std::uint32_t full_period) : full_period_(full_period) {}

  // Saves in full if `in_full`, or if no delta may follow the last snapshot. Returns whether it
  // did. `is_brief`: without a line in the log for a full one.
  Result<bool> save(client::SnapshotClient& snapshots, const std::string& directory, bool in_full,
                    bool is_brief = false);
  // After a failed save: the shards have forgotten what changed since the last one.
  void forget_base() { base_.clear(); }

 private:
  std::uint32_t full_period_;
  std::string base_;          // the last full snapshot; "": none
  std::uint32_t deltas_ = 0;  // saved since then
};

class PassSnapshots {
 public:
  // All references must outlive the object.
  PassSnapshots(const LoopOptions& options, client::ParameterClient& client, Report& report)
      : options_(options),
        client_(client),
        report_(report),
        series_(options.train.full_snapshot_period) {}

  // Whether the job saves a snapshot at the end of the pass (train.saving_period). The same on all
  // trainers.
  bool is_due(const PassProgress& at) const;
  // Whether this trainer saves snapshots, or copies of them.
  bool saves_here() const;
  bool has(std::uint32_t pass) const;
  bool has_in_full(std::uint32_t pass) const { return full_pass_ == pass; }  // from this run

  // Saves the pass, if this trainer saves. A failure that costs no more than this snapshot is only
  // logged, unless the snapshot is the last one of the job. REQUIRES: no trainer pushes until all
  // have passed the next barrier.
  Status save(const PassProgress& at);
  // Saves the pass of a stop, at its place within the pass.
  Status save_stop(const PassProgress& at, const snapshot::PassPlace& place);

  // The best pass, which stays beside the newest ones. Writes the file BEST. Empty: none.
  void set_best(std::optional<std::uint32_t> pass);
  // After the last pass: the last test may have found a better pass than the one that was kept.
  void remove_former_best(const PassProgress& at);

 private:
  bool saves_copies() const;
  Status save_own(const PassProgress& at);
  Status write_own(const PassProgress& at);
  bool can_train_on(const Error& failure) const;
  Status save_copy(const PassProgress& at, const std::string& directory);
  Status keep_newest(std::uint32_t pass);

  const LoopOptions& options_;
  client::ParameterClient& client_;
  Report& report_;

  std::optional<std::uint32_t> full_pass_;  // the last pass that this run saved in full
  SnapshotSeries series_;
  std::string best_;       // "pass-00003"; "": none
  std::string best_kept_;  // best_ when snapshots were last removed
};

}  // namespace paddle::trainer

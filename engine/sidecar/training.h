// A job that a program trains: its position, its pushes and its snapshots. The engine's client does
// the work; this class keeps the order of calls in which a trainer that was lost can come back.
//
//     hello     joins, loads, and repeats the last push of an earlier process
//     pull, push ... finish_pass     save     leave
//
// A process that comes back after its pass has ended begins at the end of that pass: its program
// finds no batch left, and repeats finish_pass and save, for which the other trainers may wait.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/pool.h"
#include "engine/client/parameter_client.h"
#include "engine/config/job_config.h"
#include "engine/sidecar/program_state.h"
#include "engine/sidecar/session.h"
#include "engine/trainer/connection.h"
#include "engine/trainer/pass_snapshots.h"
#include "engine/trainer/replay_log.h"

namespace paddle::sidecar {

struct TrainingOptions {
  trainer::TrainOptions trainer;
  UniqueFd memory = {};        // shared by all processes of this trainer, or empty
  bool is_stop_asked = false;  // the job was asked to stop before this process began
  // Starts the heartbeats of a trainer that has joined; empty: none. The result ends them.
  std::function<std::shared_ptr<void>(client::ParameterClient& client, bool comes_back)>
      start_heartbeats = {};
};

// Rows with gradients for every table of the job, in order; most may have none.
using Gradients = std::vector<client::SparseRows>;

class Training final : public Session {
 public:
  explicit Training(TrainingOptions options) : options_(std::move(options)) {}

  Result<JsonObject> hello(const std::string& code) override;
  std::span<const TableShape> tables() const override { return tables_; }
  Status pull(std::span<client::SparseRows> rows, bool is_test) override;
  // Pushes one batch. The gradients must not change until the next call. kData: one of them is not
  // finite; kUsage: more samples or cost than a batch may have. Nothing is pushed then.
  Result<JsonObject> push(std::uint64_t samples, double cost, Gradients& gradients);
  Result<JsonObject> finish_pass();
  Result<JsonObject> leave() override;

  ProgramState& state() { return state_; }
  // Saves the job, with the state that was added. All trainers call it at the same point.
  Result<JsonObject> save();

  // This trainer's files of a pattern; "": of [data] train.
  Result<JsonObject> share(const std::string& pattern) const;
  // Ends the job for all. With kUnreachable it may continue from its last snapshot.
  Result<JsonObject> abandon(const Error& why);

  // Any thread may call these, also before hello().
  void ask_to_stop();
  void interrupt(const Error& why) override;
  // Before abandon(): makes the request at work fail with this error, within a second or so.
  void break_off(const Error& why);
  std::string waiting() const override;

 private:
  Status configure(const std::string& code);
  Status join();
  Status start();
  void find_position();
  JsonObject described() const;
  // kUsage before hello(); or the error that has ended the session.
  Status check_joined() const;
  // Returns the outcome of a call of the client. An error of it ends the session.
  template <class T>
  Result<T> noted(Result<T> outcome);
  static Status check_batch(std::uint64_t samples, double cost);
  Status check_finite(const Gradients& gradients) const;
  Status push_rows(std::uint64_t samples, double cost, Gradients& gradients);
  using Barrier = trainer::BarrierMark;
  void mark(Barrier::What what);
  std::optional<std::uint64_t> passed_of(Barrier::What what) const;
  Status give_up_save();
  Result<client::PassTotals> barrier();
  bool saves_here() const;
  Status save_within_pass(std::string& path);
  Status save_between_passes(std::string& path);
  template <class Save>
  Status write(const Save& save);
  Status write_pass(const std::string& directory, std::uint32_t pass);

  TrainingOptions options_;
  config::JobConfig job_;
  std::vector<wire::ParameterSpec> specs_;  // of the tables, in order
  wire::ParameterSet parameters_;
  std::vector<TableShape> tables_;
  float gradient_limit_ = 0;
  ThreadTeam team_{1};

  mutable std::mutex mutex_;  // guards client_ itself against the threads that interrupt it
  std::unique_ptr<client::ParameterClient> client_;
  bool is_stop_asked_ = false;
  std::optional<Error> interrupted_, broken_off_;
  std::string waiting_;
  std::shared_ptr<void> heartbeats_;
  std::unique_ptr<trainer::ReplayLog> kept_;  // null: this trainer does not come back alone
  std::optional<Error> ended_;                // why every later call fails

  std::uint64_t pass_ = 0;
  std::uint64_t batch_ = 0;  // done in the pass
  bool is_over_ = false;
  bool has_left_ = false;
  bool is_resumed_ = false;     // training continues, and does not begin
  bool has_returned_ = false;   // the job was running when this process joined
  bool is_paused_ = false;      // another trainer has paused the pass that this one has finished
  bool repeats_end_ = false;    // the pass has ended before this process began
  bool is_tested_ = false;      // the others know that this trainer tests
  bool begins_ = true;          // no push, end of a pass or save in this process yet
  Barrier barrier_;             // the last one of an earlier process, or of this one
  trainer::PassCounts counts_;  // of the pass
  std::uint64_t batches_counted_ = 0;  // at least batch_: an earlier process may have counted more
  client::TrainerPosition furthest_;
  ProgramState state_;
  std::optional<trainer::SnapshotSeries> series_;
  std::string job_text_;  // for snapshots
};

}  // namespace paddle::sidecar

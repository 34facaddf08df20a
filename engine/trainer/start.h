// Start of a trainer in its job, from the beginning, from a snapshot, or where an earlier process
// of the trainer was lost. For paddle train and for programs of the user's own.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/tally.h"
#include "engine/client/parameter_client.h"
#include "engine/snapshot/reader.h"
#include "engine/trainer/connection.h"
#include "engine/trainer/loop_options.h"
#include "engine/trainer/replay_log.h"

namespace paddle::trainer {

// kUsage: flags for the rank, or for the snapshot to start from, that do not fit each other.
Status check_start(const TrainOptions& options);

// Makes the folder, and finishes what a crash has interrupted in it. kUsage: it contains snapshots,
// and the user asked neither to continue from them nor to set them aside.
Status prepare_save_folder(const TrainOptions& options);

// The options with which this process joins. If the previous process of this trainer was already
// leaving, the connect timeout is short: the pservers may have ended since.
TrainOptions options_to_join(TrainOptions options, const wire::ParameterSet& parameters,
                             const UniqueFd& memory);

// Leaves a job that is over.
Status leave_over(client::ParameterClient& client);

// Called with the snapshot from which the job continues, before it is loaded.
using OnResume = std::function<Status(const snapshot::SnapshotReader& snapshot)>;

// Trainer 0 loads the snapshot that the user asked for, if any, and then lets all trainers start; a
// job that is running continues without it. `restored_from`: as LoopOptions has it, set when a
// snapshot is taken for --resume.
Status start_training(const TrainOptions& options, client::ParameterClient& client,
                      std::string& restored_from, const OnResume& on_resume);

// After start_training(): every trainer continues at the position of the pservers, and `loop` gets
// what is known of this trainer's earlier processes.
void continue_from_servers(const client::ParameterClient& client, LoopOptions& loop);

// Opens the memory that successive processes of this trainer share; null if the supervisor provides
// none, or the job's trainers do not return. `dense` are the trainer's dense parameters.
Result<std::unique_ptr<ReplayLog>> open_replay_log(UniqueFd memory,
                                                   const wire::ParameterSet& parameters,
                                                   const client::ParameterClient& client,
                                                   Tally empty_tally,
                                                   std::span<client::DenseParameter> dense);

// For a restarted trainer, after ready(): sends the last push of its earlier process to the ports
// that lack it. `kept`: null if pushes are not kept. If progress().is_split is true afterwards, the
// push has reached only some ports and is lost.
Status repeat_last_push(const ReplayLog* kept, client::ParameterClient& client,
                        std::span<client::DenseParameter> dense);
// The error that ends the job then.
Error lost_push(std::uint32_t trainer_id);

}  // namespace paddle::trainer

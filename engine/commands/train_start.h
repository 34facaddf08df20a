// The start of a trainer in its job: anew, from a snapshot, or where an earlier life was lost.
#pragma once

#include <memory>
#include <vector>

#include "base/fd.h"
#include "engine/snapshot/info.h"
#include "engine/trainer/connection.h"
#include "engine/trainer/loop.h"

namespace paddle::commands {

// Nothing that was trained earlier is trained over without being asked for.
Status prepare_save_folder(const trainer::TrainOptions& options);

// The model's description in the snapshots that this trainer saves; null: it saves none.
using Description = std::shared_ptr<const std::vector<snapshot::ModelFile>>;
Result<Description> describe_saved(const trainer::TrainOptions& options);

// kUsage: the job asks for the figure of a test that its network has not.
Status check_figures(const config::JobConfig& job, const trainer::Model& model);

// Of a trainer that begins anew. kUsage, kData: files of its data.
Result<trainer::LoopOptions> loop_options(const trainer::TrainOptions& options,
                                          const config::JobConfig& job);

// Everything that all trainers and shards must agree on.
wire::ParameterSet agreed_parameters(const config::JobConfig& job, const trainer::Model& model,
                                     const trainer::TrainOptions& options,
                                     const trainer::LoopOptions& loop);

// Those of a trainer whose earlier life was leaving wait less long for pservers, which may have
// ended since.
trainer::TrainOptions options_to_join(trainer::TrainOptions options,
                                      const wire::ParameterSet& parameters, const UniqueFd& memory);

// A rank that was lost in a group whose trainers return: it may meet others that are on their way
// too, and tries again.
bool returns_to_group(const trainer::TrainOptions& options, const wire::ParameterSet& parameters,
                      const UniqueFd& memory);

// Trainer 0 loads the snapshot that was asked for, if any, and then lets all trainers start; a job
// that is running goes on by itself. `went_back`: as in wire::Progress, left where there is no
// news. Sets `loop.begins_within_pass`. kUsage: the snapshot is from the middle of a pass, which
// began with another order of records.
Status start_training(const trainer::TrainOptions& options, client::ParameterClient& client,
                      std::string& went_back, trainer::LoopOptions& loop);

// Every trainer continues where the servers are.
void continue_from_servers(const client::ParameterClient& client, trainer::LoopOptions& loop);
// kData: it goes on within a pass that this trainer began with data of another content.
Status check_data(const client::ParameterClient& client, const trainer::LoopOptions& loop);

// Opens what the lives of this trainer hand on; null where nobody keeps the memory for them.
Result<std::unique_ptr<trainer::KeptPush>> open_kept(UniqueFd memory,
                                                     const wire::ParameterSet& parameters,
                                                     const client::ParameterClient& client,
                                                     trainer::Model& model);

// Until take_stop_signals(), SIGTERM and SIGINT end the process with Errc::kInterrupted. One that
// was asked to stop before it began is killed by them, here and later.
void take_early_signals(bool is_stop_asked);
// From now on the first of them only asks for the stop; the second one ends the process.
void take_stop_signals();

bool is_stop_requested();

}  // namespace paddle::commands

// The GPU that a trainer computes on.
#pragma once

#include <memory>
#include <string>

#include "engine/config/job_config.h"
#include "engine/gpu/device.h"

namespace paddle::trainer {

// FLAGS_selected_gpus of this process: the number of a card of this machine; "": the first one.
std::string selected_gpus();

// Opens the card that `[train] device` asks for; null: the trainer computes on CPUs. kUsage: this
// program has no driver, or there is no such card. Errors of the driver keep their codes.
Result<std::unique_ptr<device::Device>> open_card(config::TrainDevice asked,
                                                  const std::string& selected);

// "GPU 0 (NVIDIA H100)"
std::string name_of(const device::Card& card);

// kUsage unless this program can use GPUs; `key` is the setting that asked for one.
Status check_has_driver(const std::string& key);

}  // namespace paddle::trainer

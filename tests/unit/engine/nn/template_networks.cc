#include "tests/unit/engine/nn/template_networks.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "base/rng.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/engine/nn/test_network.h"

namespace paddle::nn {
namespace {

namespace fs = std::filesystem;

// A job of a template beside a dictionary of the rows of a TestNetwork, in place of the data that
// its `prepare` makes.
Result<config::JobConfig> read_template(const fs::path& job) {
  const test::TemporaryFolder folder;
  fs::copy_file(job, folder / "job.toml");
  std::string words;
  for (std::uint64_t i = 0; i < kTestVocabulary; ++i) words += "word" + std::to_string(i) + " 3\n";
  folder.write("data/dictionary.txt", words);
  folder.write("data/counts.txt", words);
  return config::read_job(folder / "job.toml");
}

// Whether the examples of a slot have several ids: where an embedding pools them.
bool is_pooled(const config::JobConfig& job, const std::string& slot) {
  return std::ranges::any_of(job.layers, [&](const config::LayerConfig& layer) {
    return !layer.pooling.empty() && std::ranges::find(layer.inputs, slot) != layer.inputs.end();
  });
}

// Ids and floats that every layer takes: 0 and 1 are right for any label.
Batch batch_for(const config::JobConfig& job) {
  Rng rng(3);
  Batch batch{7, {}};
  for (const config::SlotConfig& config : config::data_slots(job.data)) {
    Slot& slot = batch.slots.emplace_back();
    const bool is_label =
        std::ranges::find(job.layers, config.name, &config::LayerConfig::label) != job.layers.end();
    for (std::size_t i = 0; i < batch.size * config.width; ++i) {
      slot.values.push_back(is_label ? static_cast<float>(rng.below(2))
                                     : static_cast<float>(rng.normal()));
    }
    if (config.width > 0) continue;
    const std::size_t ids = is_pooled(job, config.name) ? 3 : 1;
    for (std::size_t i = 0; i < batch.size * ids; ++i) {
      slot.ids.push_back(rng.below(is_label ? 2 : kTestVocabulary));
    }
    if (ids == 1) continue;
    for (std::size_t i = 0; i <= batch.size; ++i) {
      slot.offsets.push_back(static_cast<std::uint32_t>(i * ids));
    }
  }
  return batch;
}

std::vector<std::string> slot_names(const config::JobConfig& job) {
  std::vector<std::string> names;
  for (const config::SlotConfig& slot : config::data_slots(job.data)) {
    names.push_back(slot.width == 0 ? slot.name : slot.name + ":" + std::to_string(slot.width));
  }
  return names;
}

}  // namespace

std::vector<TemplateNetwork> template_networks() {
  // Where another machine built the test, the variable says where the source tree is.
  const char* const moved = std::getenv("PADDLE_SOURCE_DIR");  // NOLINT: nobody sets variables
  const fs::path source = moved == nullptr ? PADDLE_SOURCE_DIR : moved;
  std::vector<TemplateNetwork> networks;
  for (const auto& entry : fs::recursive_directory_iterator(source / "templates")) {
    const bool is_job = entry.path().extension() == ".toml" && entry.path().stem() != "sweep";
    if (!is_job) continue;
    auto job = read_template(entry.path());
    if (!job) throw std::runtime_error(entry.path().string() + ": " + job.error().message);
    if (!job->has_network()) continue;
    networks.push_back({entry.path(), *job, slot_names(*job), batch_for(*job)});
  }
  if (networks.size() < 10) throw std::runtime_error("there are fewer templates");
  return networks;
}

}  // namespace paddle::nn

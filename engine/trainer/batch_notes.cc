#include "engine/trainer/batch_notes.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/config/data_config.h"

namespace paddle::trainer {
namespace {

Error refuse(const wire::ParameterSpec& spec, std::string what, std::string hint) {
  return Error{Errc::kUsage, fmt::format("table '{}': {}", spec.name(), what), std::move(hint)};
}

std::optional<std::size_t> slot_of(const std::vector<config::SlotConfig>& slots,
                                   const std::string& name) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].name == name) return i;
  }
  return {};
}

bool is_clicked(const nn::Slot& label, std::size_t example) {
  if (!label.values.empty()) return label.values[example] > 0;
  if (label.offsets.empty()) return label.ids[example] > 0;
  const std::size_t begin = label.offsets[example];
  return begin < label.offsets[example + 1] && label.ids[begin] > 0;
}

bool reads(const config::LayerConfig& layer, const std::string& parameter) {
  const std::string& name = layer.weight.name;
  return layer.weight.sparse && (name.empty() ? "_" + layer.name + ".w0" : name) == parameter;
}

}  // namespace

Result<BatchNotes> BatchNotes::build(const config::JobConfig& job,
                                     const std::vector<wire::ParameterSpec>& parameters) {
  BatchNotes result;
  const std::vector<config::SlotConfig> slots = config::data_slots(job.data);
  for (std::uint32_t i = 0; i < parameters.size(); ++i) {
    const wire::ParameterSpec& spec = parameters[i];
    Table table{i, parameter::RowNotes(spec.table()), {}, {}};
    if (table.notes.size() == 0) continue;
    const wire::TablePolicy& policy = spec.table();
    if (policy.has_shrink()) {
      table.label = slot_of(slots, policy.shrink().label());
      if (!table.label || slots[*table.label].width > 1) {
        return refuse(spec,
                      fmt::format("label '{}' of shrink is not a slot with one value per example",
                                  policy.shrink().label()),
                      "");
      }
    }
    std::vector<bool> used(static_cast<std::size_t>(policy.entry_size()), false);
    for (const config::LayerConfig& layer : job.layers) {
      if (!reads(layer, spec.name())) continue;
      if (layer.type != "embedding") {
        return refuse(spec, "entry and shrink apply only to tables of embedding layers",
                      fmt::format("layer '{}' reads it too", layer.name));
      }
      for (const std::string& input : layer.inputs) {
        Feed feed{slot_of(slots, input).value_or(0), 0, layer.padding_id};
        for (std::size_t e = 0; e < used.size(); ++e) {
          if (policy.entry(static_cast<int>(e)).slot() != input) continue;
          feed.number = e + 1;
          used[e] = true;
        }
        table.feeds.push_back(feed);
      }
    }
    for (std::size_t e = 0; e < used.size(); ++e) {
      if (used[e]) continue;
      return refuse(spec,
                    fmt::format("its entry names slot '{}', which it does not read",
                                policy.entry(static_cast<int>(e)).slot()),
                    "name input slots of the table's layers");
    }
    result.tables_.push_back(std::move(table));
  }
  return result;
}

void BatchNotes::write(const nn::Batch& batch, std::span<client::SparseRows> tables) const {
  for (const Table& table : tables_) {
    client::SparseRows& rows =
        *std::ranges::find(tables, table.parameter, &client::SparseRows::parameter);
    const std::size_t size = table.notes.size();
    rows.notes.resize(rows.ids.size() * size);
    for (std::size_t i = 0; i < rows.ids.size(); ++i) {
      table.notes.start(rows.notes.data() + i * size);
    }
    for (const Feed& feed : table.feeds) {
      const nn::Slot& slot = batch.slots[feed.slot];
      for (std::size_t example = 0; example < batch.size; ++example) {
        const std::size_t begin = slot.offsets.empty() ? example : slot.offsets[example];
        const std::size_t end = slot.offsets.empty() ? example + 1 : slot.offsets[example + 1];
        const bool clicked = table.label && is_clicked(batch.slots[*table.label], example);
        for (std::size_t k = begin; k < end; ++k) {
          if (slot.ids[k] == feed.padding_id) continue;
          const auto row = std::ranges::lower_bound(rows.ids, slot.ids[k]) - rows.ids.begin();
          float* const notes = rows.notes.data() + static_cast<std::size_t>(row) * size;
          table.notes.add_score(notes, 1, clicked ? 1 : 0);
          table.notes.add_slot(notes, feed.number);
        }
      }
    }
  }
}

}  // namespace paddle::trainer

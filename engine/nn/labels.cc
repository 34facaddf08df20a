#include "engine/nn/labels.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/nn/builder.h"

namespace paddle::nn {
namespace {

// A hash is the number of a class only where [data] buckets makes it one.
Status check_hashes(const Builder& builder, const config::SlotConfig& slot, std::size_t width) {
  if (!slot.hashed || (slot.buckets > 0 && slot.buckets <= width)) return {};
  const std::uint64_t vocabulary = builder.config().vocabulary;
  return builder.error(
      fmt::format("label '{}' is a slot of hashes, which are not numbers of classes", slot.name),
      vocabulary > 0
          ? fmt::format("set [data] buckets = {}, the vocabulary: then each hash is a class",
                        vocabulary)
          : "list the texts of the classes in that slot, in their order: labels = [\"no\", "
            "\"yes\"], with type = \"id\" (\"ids\" for lists of texts)");
}

}  // namespace

Result<Labels> Labels::make(const Builder& builder, std::size_t width, bool only_ids) {
  const config::LayerConfig& config = builder.config();
  if (config.label.empty()) {
    return builder.error("key 'label' is missing: the data slot with the right answers");
  }
  Labels labels;
  labels.owner_ = builder.subject();
  labels.layer_ = config.name;
  labels.name_ = config.label;
  labels.width_ = width;
  PADDLE_TRY(labels.slot_, builder.slot(config.label, "label", only_ids));
  PADDLE_TRY_STATUS(check_hashes(builder, builder.slot_config(labels.slot_), width));
  const std::size_t floats = builder.slot_config(labels.slot_).width;
  labels.are_floats_ = floats > 0;
  if (labels.are_floats_ && floats != width) {
    return builder.error(fmt::format("label '{}' has {} floats, but the input has {} outputs",
                                     config.label, floats, width));
  }
  return labels;
}

Status Labels::check_names(const Builder& builder, std::size_t classes) const {
  const std::size_t names = builder.slot_config(slot_).labels.size();
  if (names <= classes) return {};
  return builder.error(
      fmt::format("slot '{}' has {} labels, but the input has outputs for {}", name_, names,
                  classes),
      fmt::format("give the layer '{}' size = {}", builder.config().inputs.front(), names));
}

Status Labels::check_no_names(const Builder& builder) const {
  if (builder.slot_config(slot_).labels.empty()) return {};
  return builder.error(
      fmt::format(
          "it reads slot '{}' as a number, but 'labels' of that slot make it the number of a class",
          name_),
      "remove 'labels' to read the numbers as they are, or use softmax_cross_entropy for classes");
}

Result<SlotRule> Labels::class_rule(const Builder& builder) const {
  PADDLE_TRY_STATUS(check_names(builder, width_));
  SlotRule rule = number_rule();
  rule.below = width_;
  return rule;
}

Result<SlotRule> Labels::binary_rule(const Builder& builder) const {
  SlotRule rule = number_rule();
  rule.is_binary = are_floats_;
  rule.is_single = !are_floats_ && width_ == 1;
  rule.below = are_floats_ ? 0 : std::max<std::size_t>(width_, 2);
  if (!are_floats_) PADDLE_TRY_STATUS(check_names(builder, rule.below));
  return rule;
}

SlotRule Labels::number_rule() const {
  return {.layer = layer_,
          .subject = owner_,
          .slot_name = name_,
          .slot = slot_,
          .is_label = true,
          .is_single = !are_floats_,
          .below = 0,
          .except = {},
          .is_binary = false};
}

Error Labels::error(std::string message, std::string hint) const {
  return Error{Errc::kData, fmt::format("{}: {}", owner_, message), std::move(hint)};
}

Result<std::uint64_t> Labels::only_id(const Run& run, std::size_t example) const {
  const Slot& slot = run.batch.slots[slot_];
  if (slot.offsets.empty()) return slot.ids[example];
  const std::size_t at = slot.offsets[example];
  if (slot.offsets[example + 1] - at == 1) return slot.ids[at];
  return error(
      fmt::format("an example has {} labels in slot '{}'", slot.offsets[example + 1] - at, name_),
      "give each example one label");
}

Result<std::uint64_t> Labels::class_of(const Run& run, std::size_t example) const {
  PADDLE_TRY(const std::uint64_t label, only_id(run, example));
  if (label < width_) return label;
  return error(
      fmt::format("label {} in slot '{}' is not below the {} classes", label, name_, width_));
}

Status Labels::numbers(const Run& run, std::size_t example, float* out) const {
  if (are_floats_) {
    std::copy_n(run.batch.slots[slot_].values.data() + example * width_, width_, out);
    return {};
  }
  PADDLE_TRY(const std::uint64_t label, only_id(run, example));
  out[0] = static_cast<float>(label);
  return {};
}

Status Labels::binary(const Run& run, std::size_t example, float* out) const {
  if (are_floats_ || width_ == 1) {
    PADDLE_TRY_STATUS(numbers(run, example, out));
    for (std::size_t i = 0; i < width_; ++i) {
      if (out[i] != 0.0F && out[i] != 1.0F) {
        return error(fmt::format("label {} in slot '{}' is neither 0 nor 1", out[i], name_));
      }
    }
    return {};
  }
  const Slot& slot = run.batch.slots[slot_];
  const std::size_t begin = slot.offsets.empty() ? example : slot.offsets[example];
  const std::size_t end = slot.offsets.empty() ? example + 1 : slot.offsets[example + 1];
  std::fill_n(out, width_, 0.0F);
  for (std::size_t k = begin; k < end; ++k) {
    if (slot.ids[k] >= width_) {
      return error(fmt::format("label {} in slot '{}' is not below the {} outputs", slot.ids[k],
                               name_, width_));
    }
    out[slot.ids[k]] = 1.0F;
  }
  return {};
}

}  // namespace paddle::nn

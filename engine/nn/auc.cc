// auc, pr_auc and gauc: areas under curves of a score, for the scores that `paddle predict` prints.
// auc equals scikit-learn's roc_auc_score, and pr_auc its average_precision_score. gauc is the mean
// of the auc within each group that has both classes, weighted by its number of examples. They are
// undefined (NaN) where the labels do not allow them.
#include <cmath>

#include <fmt/format.h>

#include "engine/nn/binary_scores.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

// Why an area is NaN; "" if it is a number.
const char* why_undefined(double area, bool is_empty, const char* otherwise) {
  if (!std::isnan(area)) return "";
  return is_empty ? "there is no example" : otherwise;
}

// Evaluator of the histogram of all scores.
class Area : public Evaluator {
 public:
  Area(const Builder& builder, BinaryScores scores)
      : Evaluator(builder.config().name, scores.layer(), Reads::kOutputs, 0, 0, 1),
        scores_(std::move(scores)) {}

  Status count(const Run& run, LayerAccess access, Counters counters) const override {
    PADDLE_TRY(std::vector<std::uint64_t> examples, scores_.examples(run, access));
    counters.histograms[0].add(examples);
    return {};
  }

 private:
  BinaryScores scores_;
};

class Auc final : public Area {
 public:
  using Area::Area;

  void values(Totals totals, std::vector<Value>& to) const override {
    const ScoreHistogram& scores = totals.histograms[0];
    const double area = area_under_curve(scores);
    to.push_back({.name = name(),
                  .value = area,
                  .higher_is_better = true,
                  .undefined = why_undefined(area, scores.empty(), "all labels are of one class"),
                  .curve = {"roc", roc_curve(scores)}});
  }
};

class PrAuc final : public Area {
 public:
  using Area::Area;

  void values(Totals totals, std::vector<Value>& to) const override {
    const ScoreHistogram& scores = totals.histograms[0];
    const double area = average_precision(scores);
    to.push_back({.name = name(),
                  .value = area,
                  .higher_is_better = true,
                  .undefined = why_undefined(area, scores.empty(), "no label is 1"),
                  .curve = {"precision_recall", precision_recall_curve(scores)}});
  }
};

class GroupedAuc final : public Evaluator {
 public:
  GroupedAuc(const Builder& builder, BinaryScores scores, std::size_t groups)
      : Evaluator(builder.config().name, scores.layer(), Reads::kOutputs, 0, 0, 0, 1),
        scores_(std::move(scores)),
        groups_(groups),
        group_name_(builder.config().group) {}

  Status count(const Run& run, LayerAccess access, Counters counters) const override {
    PADDLE_TRY(const std::vector<std::uint64_t> scores, scores_.examples(run, access));
    std::vector<GroupedScores::Example> examples;
    examples.reserve(scores.size());
    for (std::size_t row = 0; row < scores.size(); ++row) {
      PADDLE_TRY(const std::uint64_t group, group_of(run, run.begin + row));
      examples.push_back({group, scores[row]});
    }
    counters.grouped[0].add(examples);
    return {};
  }

  void values(Totals totals, std::vector<Value>& to) const override {
    const GroupedScores& scores = totals.grouped[0];
    const double area = scores.mean_area();
    to.push_back(
        {.name = name(),
         .value = area,
         .higher_is_better = true,
         .undefined = why_undefined(area, scores.empty(), "no group has labels of both classes")});
  }

 private:
  Result<std::uint64_t> group_of(const Run& run, std::size_t example) const {
    const Slot& slot = run.batch.slots[groups_];
    if (slot.offsets.empty()) return slot.ids[example];
    const std::size_t at = slot.offsets[example];
    const std::size_t count = slot.offsets[example + 1] - at;
    if (count == 1) return slot.ids[at];
    return Error{Errc::kData,
                 fmt::format("evaluator '{}': an example has {} ids in slot '{}'", name(), count,
                             group_name_),
                 "give each example one group"};
  }

  BinaryScores scores_;
  std::size_t groups_;
  std::string group_name_;
};

}  // namespace

EvaluatorResult make_auc(Builder& builder) {
  PADDLE_TRY(BinaryScores scores, BinaryScores::make(builder));
  return EvaluatorResult(std::make_unique<Auc>(builder, std::move(scores)));
}

EvaluatorResult make_pr_auc(Builder& builder) {
  PADDLE_TRY(BinaryScores scores, BinaryScores::make(builder));
  return EvaluatorResult(std::make_unique<PrAuc>(builder, std::move(scores)));
}

EvaluatorResult make_gauc(Builder& builder) {
  PADDLE_TRY(BinaryScores scores, BinaryScores::make(builder));
  const std::string& group = builder.config().group;
  if (group.empty()) {
    return builder.error("key 'group' is missing: the data slot whose id is an example's group");
  }
  PADDLE_TRY(const std::size_t slot, builder.slot(group, "group", true));
  builder.add_rule({.layer = builder.config().name,
                    .subject = builder.subject(),
                    .slot_name = group,
                    .slot = slot,
                    .is_label = true,
                    .is_single = true});
  return EvaluatorResult(std::make_unique<GroupedAuc>(builder, std::move(scores), slot));
}

}  // namespace paddle::nn

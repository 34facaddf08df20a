#include "cli/job/table_job.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/cluster/provider.h"
#include "cli/console/console.h"

namespace paddle::cli {
namespace {

// A part of the records is held out; of few records a larger one, which is not empty.
constexpr double kTestFraction = 0.1, kTestFractionOfFew = 0.25;
constexpr std::uint64_t kFewRecords = 100;
// A deep part needs more records than a linear model.
constexpr std::uint64_t kRecordsForDeep = 2000;
constexpr std::uint64_t kRecordsForDeepNumbers = 20'000;
constexpr std::size_t kNamesShown = 4, kNameBytesShown = 60;
constexpr std::size_t kLabelsListedMax = 100;     // more are learned
constexpr std::uint64_t kPassesPerSnapshot = 10;  // of small tables, whose passes take no time
constexpr std::size_t kNotesShown = 10;           // about columns of one kind
constexpr double kFewTests = 10;                  // records of a class that say little
constexpr std::size_t kCommentColumn = 36;

// The names of a table's columns that one slot reads.
struct NumberSlot {
  std::string name;
  std::vector<std::string> columns;
  std::uint32_t width = 1;
  bool has_missing = false;
  bool is_log = false;
};

struct Slot {
  std::string name;
  bool is_list = false;  // jsonl: a list of texts
};

double test_fraction_of(const TableSample& sample) {
  return sample.records_all < kFewRecords ? kTestFractionOfFew : kTestFraction;
}

// How the optimizer goes over the records.
struct Pace {
  std::uint64_t batch = 32, passes = 10;
  double rate = 1e-2;
  std::string schedule;  // of pass_manual
};

class JobWriter {
 public:
  JobWriter(const TableSample& sample, const TableGuess& guess) : sample_(sample), guess_(guess) {
    for (const SampleColumn& column : sample.columns) names_.insert(column.name);
    label_ = slot_name(sample.columns[guess.label].name);
    outputs_ = guess.task == Task::kClasses ? guess.classes.size() : 1;
    for (std::size_t i = 0; i < guess.columns.size(); ++i) {
      if (i != guess.label) add_column(i);
    }
    has_deep_ = sample.records_all >=
                (categories_.empty() && texts_.empty() ? kRecordsForDeepNumbers : kRecordsForDeep);
    is_libsvm_ = sample.format == "libsvm";
    if (is_libsvm_) has_deep_ = false;
  }

  // A few words for the network.
  std::string network() const {
    const bool is_linear = !has_deep_;
    std::string linear = guess_.task == Task::kNumber ? "linear regression" : "logistic regression";
    if (is_linear && categories_.empty()) return linear;
    if (is_linear) return linear + ", with learned numbers for each category";
    return categories_.empty() && texts_.empty() ? "a linear part and a deep part, added"
                                                 : "wide and deep";
  }

  std::string text(const std::string& source, const std::string& data) {
    write_head(source);
    write_data(data);
    if (is_libsvm_) {
      write_features();
    } else {
      write_slots();
      write_network();
    }
    write_cost();
    write_training();
    return std::move(text_);
  }

 private:
  // Appends a line; a comment begins at the same column in all lines.
  void line(std::string_view words, std::string_view comment = "") {
    text_ += words;
    if (!comment.empty()) {
      text_.append(words.size() < kCommentColumn ? kCommentColumn - words.size() : 1, ' ');
      text_ += "# ";
      text_ += comment;
    }
    text_ += '\n';
  }
  template <class... Values>
  void row(fmt::format_string<Values...> form, Values&&... values) {
    line(fmt::format(form, std::forward<Values>(values)...));
  }
  void layer(std::string_view name, std::string_view type, const std::vector<std::string>& inputs) {
    line("");
    line("[[layer]]");
    row("name = {}", toml_text(name));
    row("type = {}", toml_text(type));
    row("input = {}", toml_list(inputs));
  }

  // A name that no column has.
  std::string free_name(std::string name) {
    while (!names_.insert(name).second) name += '_';
    return name;
  }

  // A column of csv may lack a name, a slot may not.
  std::string slot_name(const std::string& column) {
    return column.empty() ? free_name("unnamed") : column;
  }
  void name_row(const std::string& slot) {
    row("name = {}", toml_text(slot));
    const bool is_column =
        std::ranges::find(sample_.columns, slot, &SampleColumn::name) != sample_.columns.end();
    if (!is_column) line("columns = [\"\"]");
  }

  void add_column(std::size_t index) {
    const ColumnGuess& guess = guess_.columns[index];
    const SampleColumn& column = sample_.columns[index];
    if (guess.kind == ColumnKind::kCategory) categories_.push_back({slot_name(column.name)});
    if (guess.kind == ColumnKind::kText) texts_.push_back({slot_name(column.name), column.is_list});
    if (!guess.is_number()) return;
    const bool is_log = guess.kind == ColumnKind::kLongTail;
    if (sample_.format != "csv") {  // a slot for each
      numbers_.push_back({column.name, {}, column.width, guess.missing > 0, is_log});
      return;
    }
    const auto same = std::ranges::find_if(numbers_, [&](const NumberSlot& slot) {
      return slot.is_log == is_log && slot.has_missing == (guess.missing > 0);
    });
    if (same != numbers_.end()) {
      same->columns.push_back(column.name);
      return;
    }
    const std::string name =
        fmt::format("numbers{}{}", is_log ? "_log" : "", guess.missing > 0 ? "_missing" : "");
    numbers_.push_back({free_name(name), {column.name}, 1, guess.missing > 0, is_log});
  }

  void write_head(const std::string& source) {
    row("# Written by paddlectl init --from {}, which guessed from {}{}.", escape_control(source),
        sample_.is_whole ? "" : "its first ", counted(sample_.records, "record"));
    line("# Every line may be changed; docs/job.md has all keys.");
    line("seed = 1", "another number: other held-out records");
  }

  void write_data(const std::string& data) {
    line("");
    line("[data]");
    row("train = {}", toml_text(data));
    line(fmt::format("test_fraction = {}", test_fraction()),
         "this part of the records is not trained on but tests the model");
    row("format = {}", toml_text(sample_.format));
    if (is_libsvm_) write_label_keys();
    if (sample_.format != "csv") return;
    if (sample_.has_header) line("header = true");
    if (sample_.delimiter != ',')
      row("delimiter = {}",
          sample_.delimiter == '\t' ? "\"\\t\"" : toml_text(std::string(1, sample_.delimiter)));
    std::vector<std::string> names;
    for (const SampleColumn& column : sample_.columns) names.push_back(column.name);
    row("columns = {}", toml_list(names));
  }

  void write_label_keys() {
    if (guess_.task == Task::kNumber) {
      if (is_libsvm_) line("label = \"float\"");
      return;
    }
    const bool is_binary = guess_.task == Task::kBinary;
    if (guess_.are_classes_ids && is_binary) return;
    const bool can_learn = sample_.format == "csv" || sample_.format == "jsonl";
    if (can_learn && guess_.classes.size() > kLabelsListedMax) {
      line("labels = \"learned\"", "the labels of the training data, sorted by name");
      return;
    }
    line(fmt::format("labels = {}", toml_list(guess_.classes)),
         is_binary          ? "no, yes: a prediction is the probability of the second one"
         : sample_.is_whole ? "all classes"
                            : "the classes of the first records: add those of others");
  }

  void write_slots() {
    line("");
    line("[[data.slot]]", "the label");
    name_row(label_);
    row("type = {}", guess_.task == Task::kNumber ? "\"float\"" : "\"id\"");
    write_label_keys();
    for (const NumberSlot& slot : numbers_) write_numbers(slot);
    for (const Slot& slot : categories_) {
      line("");
      line("[[data.slot]]", "a category: each text is an id");
      name_row(slot.name);
      line("type = \"hash\"");
    }
    for (const Slot& slot : texts_) {
      line("");
      line("[[data.slot]]", "each word is an id");
      name_row(slot.name);
      line(slot.is_list ? "type = \"hashes\"" : "type = \"hash\"");
      if (!slot.is_list) line("separator = \" \"");
    }
  }

  void write_numbers(const NumberSlot& slot) {
    line("");
    line("[[data.slot]]", slot.has_missing ? "numbers, some of which are missing" : "numbers");
    row("name = {}", toml_text(slot.name));
    line("type = \"float\"");
    if (!slot.columns.empty()) row("columns = {}", toml_list(slot.columns));
    if (slot.width > 1) row("width = {}", slot.width);
    line("missing = \"mean\"", "a missing number reads as the mean of its column");
    if (slot.has_missing)
      line("missing_indicator = true", "and a further input says that it was missing");
    if (slot.is_log) {
      line("normalize = \"log\"", "some are far larger than most: sign(x) ln(1 + |x|)");
    } else {
      line("normalize = \"standard\"", "mean 0 and standard deviation 1");
    }
  }

  std::vector<std::string> number_names() const {
    std::vector<std::string> names;
    for (const NumberSlot& slot : numbers_) names.push_back(slot.name);
    return names;
  }
  static std::vector<std::string> names_of(const std::vector<Slot>& slots) {
    std::vector<std::string> names;
    for (const Slot& slot : slots) names.push_back(slot.name);
    return names;
  }

  void embedding(const std::string& name, const std::vector<Slot>& slots, std::size_t size,
                 double deviation, std::string_view comment) {
    layer(name, "embedding", names_of(slots));
    line(fmt::format("size = {}", size), comment);
    row("weight = {{ initial_std = {:.1f}, sparse = true }}", deviation);
  }

  // The layers up to the outputs, whose sum is the answer.
  void write_network() {
    std::vector<std::string> terms, inputs = number_names();
    const bool sums_wide = outputs_ == 1 && !categories_.empty();
    if (!texts_.empty()) {
      const std::string words = free_name("words");
      embedding(words, texts_, 16, 0.1, "numbers for each word");
      line("pooling = \"mean\"");
      inputs.push_back(words);
    }
    if (sums_wide) write_wide(terms);
    std::vector<std::string> deep = inputs;
    if (!categories_.empty() && (has_deep_ || !sums_wide)) {
      const std::string categories = free_name("categories");
      embedding(categories, categories_, 8, 0.1, "learned numbers for each text of each category");
      deep.insert(deep.begin(), categories);
      if (!has_deep_) inputs.push_back(categories);
    }
    if (!inputs.empty()) {
      terms.push_back(free_name("linear"));
      layer(terms.back(), "fc", inputs);
      row("size = {}", outputs_);
      line("weight = { initial_std = 0.0 }");
    }
    if (has_deep_) write_deep(deep, terms);
    output_ = terms.front();
    if (terms.size() == 1) return;
    output_ = free_name("sum");
    layer(output_, "add", terms);
  }

  void write_wide(std::vector<std::string>& terms) {
    const std::string wide = free_name("wide");
    embedding(wide, categories_, 1, 0, "a weight for each text of each category");
    terms.push_back(free_name("wide_sum"));
    layer(terms.back(), "fc", {wide});
    line("size = 1", "the sum of these weights");
    line("bias = false");
    line("weight = { initial_mean = 1.0, initial_std = 0.0, static = true }");
  }

  void write_deep(std::vector<std::string> inputs, std::vector<std::string>& terms) {
    for (const auto& [name, size] : {std::pair("deep1", 64), std::pair("deep2", 32)}) {
      const std::string free = free_name(name);
      layer(free, "fc", inputs);
      row("size = {}", size);
      line("activation = \"relu\"");
      inputs = {free};
    }
    terms.push_back(free_name("deep"));
    layer(terms.back(), "fc", inputs);
    row("size = {}", outputs_);
    line("weight = { initial_std = 0.01 }");
  }

  // libsvm: a sparse record times the weights.
  void write_features() {
    output_ = "scores";
    label_ = "label";
    layer(output_, "embedding", {"features"});
    line(fmt::format("size = {}", outputs_), "weights of each feature");
    line("pooling = \"sum\"");
    line("weight = { initial_std = 0.0, sparse = true }");
    if (outputs_ > 1) return;
    layer("with_bias", "fc", {output_});
    line("size = 1");
    line("weight = { initial_mean = 1.0, initial_std = 0.0, static = true }");
    output_ = "with_bias";
  }

  void write_cost() {
    if (guess_.task == Task::kNumber) {
      const std::string estimate = free_name("estimate");
      layer(estimate, "fc", {output_});
      line("size = 1", "the network learns numbers near 1; these make labels of them:");
      const double deviation = guess_.deviation > 0 ? guess_.deviation : 1;
      line(fmt::format("weight = {{ initial_mean = {:.4e}, initial_std = 0.0, static = true }}",
                       deviation),
           "their standard deviation");
      line(fmt::format("bias_attributes = {{ initial_mean = {:.4e}, static = true }}", guess_.mean),
           "their mean");
      output_ = estimate;
    }
    constexpr std::array<std::string_view, 3> kCosts{"binary_cross_entropy",
                                                     "softmax_cross_entropy", "squared_error"};
    layer(free_name("cost"), kCosts[static_cast<std::size_t>(guess_.task)], {output_});
    row("label = {}", toml_text(label_));
  }

  double test_fraction() const { return test_fraction_of(sample_); }
  double training_records() const {
    return static_cast<double>(sample_.records_all) * (1 - test_fraction());
  }

  // The more records, the fewer passes.
  Pace pace() const {
    const double records = training_records();
    Pace pace;
    pace.batch = records < 20'000 ? 32 : records < 200'000 ? 128 : 512;
    const double updates = has_deep_ ? 3000 : 4000;
    const double passes = std::ceil(updates * static_cast<double>(pace.batch) / records);
    pace.passes = static_cast<std::uint64_t>(std::clamp(passes, has_deep_ ? 4.0 : 6.0, 60.0));
    pace.rate = has_deep_ ? 2e-3 : 1e-2;
    const std::uint64_t last = pace.passes;
    pace.schedule = fmt::format("{}:1.0,{}:0.3,{}:0.1", last / 2, last * 3 / 4, last);
    return pace;
  }

  void write_training() {
    const Pace pace = this->pace();
    line("");
    line("[optimizer]");
    line("method = \"adam\"");
    line(fmt::format("learning_rate = {}", pace.rate));
    line("learning_rate_schedule = \"pass_manual\"", "slower towards the end: less noise");
    row("learning_rate_args = {}", toml_text(pace.schedule));
    const double scale = guess_.task == Task::kNumber ? 2 * guess_.deviation * guess_.deviation : 1;
    line(fmt::format("l2 = {:.1e}", scale / training_records()),
         "keeps weights small, as scikit-learn's C = 1 or alpha = 1");
    line("");
    line("[train]");
    row("passes = {}", pace.passes);
    line(fmt::format("batch_size_total = {}", pace.batch), "of all trainers together");
    if (pace.passes > kPassesPerSnapshot) {
      line(fmt::format("saving_period = {}", kPassesPerSnapshot),
           "passes between snapshots; the last pass is always saved");
    }
    row("shuffle_records = {}", std::min<std::uint64_t>(sample_.records_all, 100'000));
    constexpr std::array<std::string_view, 3> kBest{"auc", "classification_error", "rmse"};
    if (has_deep_) {
      line(fmt::format("best = \"{}\"", kBest[static_cast<std::size_t>(guess_.task)]),
           "keep the best pass too");
    }
  }

  const TableSample& sample_;
  const TableGuess& guess_;
  std::set<std::string> names_;  // of columns, slots and layers
  std::string label_, output_, text_;
  std::size_t outputs_ = 1;
  std::vector<NumberSlot> numbers_;
  std::vector<Slot> categories_, texts_;
  bool has_deep_ = false, is_libsvm_ = false;
};

std::string shown_column(const std::string& name) {
  if (name.empty()) return "(no name)";
  return escape_control(name.substr(0, kNameBytesShown)) +
         (name.size() > kNameBytesShown ? "..." : "");
}

std::string few_names(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kNamesShown) {
      shown.push_back(fmt::format("and {} more", names.size() - kNamesShown));
      break;
    }
    shown.push_back(shown_column(name));
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

std::string file_text(const TableSample& sample) {
  std::string text = fmt::format("{}, {}{}", sample.format, sample.is_whole ? "" : "about ",
                                 counted(sample.records_all, "record"));
  if (!sample.is_whole) {
    text += fmt::format(", guessed from the first {}", counted(sample.records, "record"));
    if (sample.format != "npz") {
      text +=
          fmt::format(" ({} of {})", human_bytes(sample.sample_bytes), human_bytes(sample.bytes));
    }
  }
  if (sample.format == "libsvm")
    return text + fmt::format(", features up to {}", sample.feature_max);
  if (sample.format != "csv") return text;
  const std::string delimiter = sample.delimiter == '\t'  ? "tabs"
                                : sample.delimiter == ' ' ? "blanks"
                                                          : fmt::format("'{}'", sample.delimiter);
  return text + fmt::format(", {} between {}, {}", delimiter,
                            counted(sample.columns.size(), "column"),
                            sample.has_header ? "names in the first line" : "no line with names");
}

GuessRow label_row(const TableSample& sample, const TableGuess& guess) {
  GuessRow row{"label", shown_column(sample.columns[guess.label].name) + ": " + guess.label_reason,
               guess.label_sure, ""};
  if (guess.label_sure != Sureness::kSure) row.change = "--label COLUMN";
  return row;
}

GuessRow task_row(const TableGuess& guess) {
  GuessRow row{"task", "", guess.task_sure, ""};
  if (guess.task == Task::kNumber) {
    row.guess = fmt::format("a number, {:.4g} on average", guess.mean);
  } else if (guess.task == Task::kClasses) {
    row.guess =
        fmt::format("one of {} classes: {}", guess.classes.size(), few_names(guess.classes));
    if (guess.task_sure != Sureness::kSure)
      row.change = "for a number: type \"float\", size 1, squared_error (docs/recipes.md)";
  } else {
    row.guess = fmt::format("yes or no: yes is '{}', no is '{}'", escape_control(guess.classes[1]),
                            escape_control(guess.classes[0]));
    if (!guess.is_yes_sure) {
      row.sure = Sureness::kGuess;
      row.change = "the order of labels";
    }
  }
  if (!guess.task_note.empty()) row.change = guess.task_note;
  return row;
}

// The columns of one kind.
struct KindText {
  ColumnKind kind;
  std::string_view what;
  std::string_view change;
};
constexpr std::array<KindText, 4> kKinds{{
    {ColumnKind::kNumber, "numbers", ""},
    {ColumnKind::kLongTail, "long-tailed numbers", "normalize = \"standard\""},
    {ColumnKind::kCategory, "categories", ""},
    {ColumnKind::kText, "texts", ""},
}};

constexpr std::array<KindText, 5> kLeftOut{{
    {ColumnKind::kIdentifier, "identifiers", "type = \"hash\": a category"},
    {ColumnKind::kDate, "dates", ""},
    {ColumnKind::kConstant, "constants", ""},
    {ColumnKind::kEmpty, "empty", ""},
    {ColumnKind::kUnusable, "not readable", ""},
}};

// Appends the columns of one kind, a row for each note.
void add_kind(const TableSample& sample, const TableGuess& guess, const KindText& kind,
              std::vector<GuessRow>& rows) {
  struct Group {
    std::string note;
    Sureness sure = Sureness::kSure;
    std::vector<std::string> names;
  };
  std::vector<Group> groups;
  for (std::size_t i = 0; i < guess.columns.size(); ++i) {
    const ColumnGuess& column = guess.columns[i];
    if (i == guess.label || column.kind != kind.kind) continue;
    auto group = std::ranges::find(groups, column.note, &Group::note);
    if (group == groups.end() && groups.size() == kNotesShown) {
      group = std::prev(groups.end());
      group->note = "for several reasons";
    } else if (group == groups.end()) {
      group = groups.insert(groups.end(), {column.note, Sureness::kSure, {}});
    }
    group->sure = std::max(group->sure, column.sure);
    group->names.push_back(sample.columns[i].name);
  }
  const bool is_left_out =
      std::ranges::find(kLeftOut, kind.kind, &KindText::kind) != kLeftOut.end();
  for (const Group& group : groups) {
    std::string names = few_names(group.names);
    if (is_left_out) names = fmt::format("{}: {}", kind.what, names);
    rows.push_back({is_left_out ? "left out" : std::string(kind.what), std::move(names), group.sure,
                    group.note.empty() ? std::string(kind.change) : group.note});
  }
}

void add_missing(const TableSample& sample, const TableGuess& guess, std::vector<GuessRow>& rows) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < guess.columns.size(); ++i) {
    const ColumnGuess& column = guess.columns[i];
    if (i == guess.label || !column.is_number() || column.missing == 0) continue;
    names.push_back(fmt::format("{} ({:.2g} %)", sample.columns[i].name,
                                100.0 * static_cast<double>(column.missing) /
                                    static_cast<double>(sample.columns[i].values.size())));
  }
  if (names.empty()) return;
  rows.push_back({"missing", few_names(names) + ": the mean, and an input that says so",
                  Sureness::kSure, "missing = 0, or another number"});
}

// A test of few records with yes, or with no, says little.
void add_few_tests(const TableSample& sample, const TableGuess& guess,
                   std::vector<GuessRow>& rows) {
  if (guess.task != Task::kBinary) return;
  const double held_out = static_cast<double>(sample.records_all) * test_fraction_of(sample);
  const double rare = held_out * static_cast<double>(guess.rare_records) /
                      static_cast<double>(std::max<std::uint64_t>(1, sample.records));
  if (rare >= kFewTests) return;
  const std::string count = rare < 1 ? "perhaps none" : fmt::format("about {:.0f}", rare);
  rows.push_back({"held out",
                  fmt::format("{} of {:.0f} records with '{}', too few for good tests", count,
                              held_out, escape_control(guess.classes[guess.rare_class])),
                  Sureness::kLikely, "test_fraction, or more records"});
}

}  // namespace

std::string job_of_table(const TableSample& sample, const TableGuess& guess,
                         const std::string& source, const std::string& data) {
  return JobWriter(sample, guess).text(source, data);
}

std::vector<GuessRow> guess_rows(const TableSample& sample, const TableGuess& guess) {
  std::vector<GuessRow> rows;
  rows.push_back({"file", file_text(sample),
                  sample.is_header_sure ? Sureness::kSure : Sureness::kLikely,
                  sample.is_header_sure ? "" : "write a line with names above the records"});
  rows.push_back(label_row(sample, guess));
  rows.push_back(task_row(guess));
  add_few_tests(sample, guess, rows);
  for (const KindText& kind : kKinds) add_kind(sample, guess, kind, rows);
  add_missing(sample, guess, rows);
  for (const KindText& kind : kLeftOut) add_kind(sample, guess, kind, rows);
  for (GuessRow& row : rows) {
    if (!sample.is_whole) row.sure = std::max(row.sure, Sureness::kLikely);
  }
  rows.push_back(
      {"network", JobWriter(sample, guess).network(), Sureness::kGuess, "its layers in job.toml"});
  return rows;
}

}  // namespace paddle::cli

#include "cli/job/table_guess.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <regex>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/console/console.h"
#include "engine/config/csv_line.h"

namespace paddle::cli {
namespace {

constexpr double kAlmostAll = 0.9;
constexpr std::uint64_t kFewValues = 20;       // as many whole numbers may be classes
constexpr std::uint64_t kRecordsPerClass = 5;  // at least, on average
constexpr std::uint64_t kClassesMax = 1000;
constexpr double kSentenceWords = 3;       // mean number of words in a text that is no category
constexpr double kTailDeviations = 10;     // of the largest number from the mean
constexpr std::uint64_t kTriedMax = 1000;  // texts of a column that patterns are tried on
constexpr std::size_t kTriedBytes = 100;
constexpr std::size_t kShownValueBytes = 40;
constexpr std::size_t kColumnsShown = 20;

// Names of labels, the most certain ones first.
constexpr auto kLabelNames = std::to_array<std::string_view>(
    {"label", "target", "class", "y", "click", "clicked", "is_click", "survived", "churn",
     "churned", "outcome", "species", "diagnosis", "converted", "purchased", "response"});
constexpr auto kYes =
    std::to_array<std::string_view>({"1", "yes", "y", "true", "t", "positive", "pos", "+", "+1",
                                     "click", "clicked", "spam", "churned", "malignant", ">50k"});
constexpr auto kNo = std::to_array<std::string_view>(
    {"0", "no", "n", "false", "f", "negative", "neg", "-", "-1", "none", "ham", "benign", "<=50k"});

template <std::size_t Count>
bool is_one_of(const std::array<std::string_view, Count>& words, std::string_view text) {
  return std::ranges::find(words, text) != words.end();
}

std::string shown_name(std::string_view text) {
  return fmt::format("'{}{}'", escape_control(text.substr(0, kShownValueBytes)),
                     text.size() > kShownValueBytes ? "..." : "");
}

bool is_missing(std::string_view value) {
  return value.empty() || config::is_missing_value(value);
}

double number_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Whether the name ends in one of the words that follow numbers which name something: "user_id",
// "userId", "zip".
bool is_name_of_code(std::string_view name) {
  static const std::regex code(
      R"((^|.*[_\-. ])(id|ids|uid|code|zip|zipcode|zip_code|postcode|index|no|nr|number)$)"
      R"(|.*[a-z]I[dD]$)",
      std::regex::optimize);
  const std::string text(name.substr(name.size() - std::min(name.size(), kTriedBytes)));
  return std::regex_match(lower_case(text), code) || std::regex_match(text, code);
}

bool is_date(const std::string& text) {
  static const std::regex date(
      R"(\d{4}[-/]\d{1,2}[-/]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?)",
      std::regex::optimize);
  return std::regex_match(text, date);
}

// "1,5", "1.234,5" and "1,234.5".
bool is_number_with_commas(const std::string& text) {
  static const std::regex commas(R"([-+]?\d+(\.\d{3})*,\d+|[-+]?\d{1,3}(,\d{3})+(\.\d+)?)",
                                 std::regex::optimize);
  return std::regex_match(text, commas);
}

std::size_t words_in(std::string_view text) {
  std::size_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool is_blank = c == ' ' || c == '\t';
    words += !is_blank && !inside ? 1 : 0;
    inside = !is_blank;
  }
  return words;
}

// Counts over the values of a column.
struct Facts {
  std::uint64_t values = 0, missing = 0, empty = 0, numbers = 0, whole = 0, words = 0;
  std::uint64_t tried = 0, dates = 0, with_commas = 0;  // the first texts are tried
  bool counts_up = true;                                // each number is the one before plus 1
  double minimum = HUGE_VAL, maximum = -HUGE_VAL, sum = 0, squares = 0;
  std::unordered_set<std::string_view> distinct;
  std::unordered_set<std::string_view> odd;  // texts that are no numbers

  std::uint64_t present() const { return values - missing; }
  bool are_numbers() const { return numbers == present(); }
  bool are_most_texts(std::uint64_t count) const {
    return tried > 0 && static_cast<double>(count) >= kAlmostAll * static_cast<double>(tried);
  }
  double share(std::uint64_t count) const {
    return static_cast<double>(count) / static_cast<double>(std::max<std::uint64_t>(1, present()));
  }
  double mean() const { return sum / static_cast<double>(std::max<std::uint64_t>(1, numbers)); }
  double deviation() const {
    const double square = squares / static_cast<double>(std::max<std::uint64_t>(1, numbers));
    return std::sqrt(std::max(0.0, square - mean() * mean()));
  }
};

void add_number(double number, Facts& facts) {
  facts.counts_up = facts.counts_up && (facts.numbers == 0 || number == facts.maximum + 1);
  ++facts.numbers;
  facts.whole += number == std::floor(number) ? 1 : 0;
  facts.minimum = std::min(facts.minimum, number);
  facts.maximum = std::max(facts.maximum, number);
  facts.sum += number;
  facts.squares += number * number;
}

Facts facts_of(const SampleColumn& column) {
  Facts facts;
  for (const std::string_view value : column.values) {
    ++facts.values;
    facts.empty += value.empty() ? 1 : 0;
    if (is_missing(value)) {
      ++facts.missing;
      continue;
    }
    facts.distinct.insert(value);
    if (!column.is_text && is_number(value)) {
      add_number(number_of(value), facts);
      continue;
    }
    facts.words += words_in(value);
    facts.odd.insert(value);
    if (facts.tried == kTriedMax) continue;
    ++facts.tried;
    const std::string text(value.substr(0, kTriedBytes));
    facts.dates += is_date(text) ? 1 : 0;
    facts.with_commas += !column.is_text && is_number_with_commas(text) ? 1 : 0;
  }
  return facts;
}

ColumnGuess guess_numbers(const TableSample& sample, const SampleColumn& column,
                          const Facts& facts) {
  ColumnGuess guess{.kind = ColumnKind::kNumber};
  const bool are_whole = facts.whole == facts.numbers;
  const bool can_hash = sample.format != "npz" && column.width == 1;
  if (column.width > 1) return guess;
  if (are_whole && facts.counts_up && facts.missing == 0) {
    guess.kind = ColumnKind::kIdentifier;
    guess.note = "it counts the records";
  } else if (are_whole && can_hash && is_name_of_code(column.name)) {
    const bool repeats = facts.share(facts.distinct.size()) < kAlmostAll;
    guess.kind = repeats ? ColumnKind::kCategory : ColumnKind::kIdentifier;
    guess.sure = Sureness::kLikely;
    guess.note = "its numbers name something, by the column's name";
  } else if (facts.minimum >= 0 && facts.deviation() > 0 &&
             facts.maximum > facts.mean() + kTailDeviations * facts.deviation()) {
    guess.kind = ColumnKind::kLongTail;
    guess.sure = Sureness::kLikely;
  }
  return guess;
}

ColumnGuess guess_texts(const TableSample& sample, const SampleColumn& column, const Facts& facts) {
  ColumnGuess guess{.kind = ColumnKind::kCategory};
  const double distinct = facts.share(facts.distinct.size());
  if (column.is_list) {
    guess.kind = ColumnKind::kText;
  } else if (facts.are_most_texts(facts.dates)) {
    guess.kind = ColumnKind::kDate;
    guess.note = "make columns of what matters: the month, the weekday, days since";
  } else if (facts.share(facts.words) > kSentenceWords && distinct > 0.5) {
    guess.kind = sample.format == "csv" ? ColumnKind::kText : ColumnKind::kUnusable;
    guess.sure = Sureness::kLikely;
    if (guess.kind == ColumnKind::kUnusable) guess.note = "write a sentence as a list of its words";
  } else if (distinct > kAlmostAll) {
    guess.kind = ColumnKind::kIdentifier;
    guess.sure = Sureness::kLikely;
    guess.note = "almost every record has another value";
  } else if (facts.share(facts.numbers) > kAlmostAll) {
    guess.sure = Sureness::kGuess;
    guess.note = fmt::format("numbers, but for {}: empty these fields to make it a number",
                             shown_name(*facts.odd.begin()));
  }
  return guess;
}

ColumnGuess guess_column(const TableSample& sample, const SampleColumn& column) {
  if (!column.unusable.empty())
    return {.kind = ColumnKind::kUnusable, .missing = 0, .note = column.unusable};
  if (column.name.empty() && sample.format != "csv")
    return {.kind = ColumnKind::kUnusable, .note = "it has no name"};
  const Facts facts = facts_of(column);
  ColumnGuess guess;
  if (facts.present() == 0) {
    guess.kind = ColumnKind::kEmpty;
  } else if (facts.distinct.size() == 1 && facts.missing == 0) {
    guess.kind = ColumnKind::kConstant;
  } else if (facts.are_numbers()) {
    guess = guess_numbers(sample, column, facts);
  } else {
    guess = guess_texts(sample, column, facts);
  }
  // A word such as NA is a category like others.
  guess.missing = guess.is_number() ? facts.missing : facts.empty;
  guess.distinct = facts.distinct.size();
  return guess;
}

// The label.

std::string names_of(const TableSample& sample) {
  std::vector<std::string> names;
  for (const SampleColumn& column : sample.columns) {
    if (names.size() == kColumnsShown) {
      names.emplace_back("...");
      break;
    }
    names.push_back(escape_control(column.name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Status find_label(const TableSample& sample, const std::string& wanted, const std::string& shown,
                  TableGuess& guess) {
  const std::vector<SampleColumn>& columns = sample.columns;
  if (!wanted.empty()) {
    const auto found = std::ranges::find(columns, wanted, &SampleColumn::name);
    if (found == columns.end()) {
      std::vector<std::string_view> names;
      for (const SampleColumn& column : columns) names.push_back(column.name);
      const std::string near = nearest(wanted, names);
      return Error{Errc::kUsage,
                   fmt::format("{}: there is no column {}{}", shown, shown_name(wanted),
                               near.empty() ? "" : fmt::format(", did you mean '{}'?", near)),
                   "the columns are " + names_of(sample)};
    }
    guess.label = static_cast<std::size_t>(found - columns.begin());
    guess.label_reason = "--label";
    return {};
  }
  for (const std::string_view name : kLabelNames) {
    const auto found = std::ranges::find_if(
        columns, [&](const SampleColumn& column) { return lower_case(column.name) == name; });
    if (found == columns.end()) continue;
    guess.label = static_cast<std::size_t>(found - columns.begin());
    guess.label_reason = sample.format == "libsvm" ? "the format" : "its name";
    guess.label_sure = sample.format == "libsvm" ? Sureness::kSure : Sureness::kLikely;
    return {};
  }
  guess.label = columns.size() - 1;
  guess.label_reason = "the last column";
  guess.label_sure = Sureness::kGuess;
  return {};
}

Error no_label(const TableSample& sample, const TableGuess& guess, const std::string& shown,
               std::string_view why) {
  return {Errc::kUsage,
          fmt::format("{}: column {} is no label: {}", shown,
                      shown_name(sample.columns[guess.label].name), why),
          "name the label's column with --label; the columns are " + names_of(sample)};
}

// The classes in their order.
void sort_classes(const Facts& facts, TableGuess& guess) {
  guess.classes.assign(facts.distinct.begin(), facts.distinct.end());
  if (facts.are_numbers()) {
    std::ranges::sort(guess.classes, {}, [](const std::string& text) { return number_of(text); });
    for (std::size_t i = 0; i < guess.classes.size(); ++i) {
      guess.are_classes_ids = (i == 0 || guess.are_classes_ids) &&
                              number_of(guess.classes[i]) == static_cast<double>(i);
    }
  } else {
    std::ranges::sort(guess.classes);
  }
  if (guess.classes.size() != 2) return;
  const std::string first = lower_case(guess.classes[0]), second = lower_case(guess.classes[1]);
  guess.is_yes_sure = is_one_of(kYes, second) || is_one_of(kNo, first);
  if (guess.is_yes_sure || guess.are_classes_ids) return;
  guess.is_yes_sure = is_one_of(kYes, first) || is_one_of(kNo, second);
  if (guess.is_yes_sure) std::swap(guess.classes[0], guess.classes[1]);
}

// Merges spellings of a number that mean one class: "1" and "1.0".
std::uint64_t distinct_numbers(const Facts& facts) {
  std::unordered_set<double> numbers;
  for (const std::string_view value : facts.distinct) numbers.insert(number_of(value));
  return numbers.size();
}

Status guess_task(const TableSample& sample, const std::string& shown, TableGuess& guess) {
  const SampleColumn& column = sample.columns[guess.label];
  const auto refuse = [&](std::string_view why) { return no_label(sample, guess, shown, why); };
  if (!column.unusable.empty()) return refuse(column.unusable);
  if (column.width != 1 || column.is_list) return refuse("it has several values in each record");
  const Facts facts = facts_of(column);
  if (facts.missing > 0) {
    const auto first = std::ranges::find_if(column.values, is_missing) - column.values.begin();
    return Error{Errc::kData,
                 fmt::format("{}: the label {} is missing in {}, first in record {}", shown,
                             shown_name(column.name), counted(facts.missing, "record"), first + 1),
                 "remove these records, or name another column with --label"};
  }
  const std::uint64_t distinct =
      facts.are_numbers() ? distinct_numbers(facts) : facts.distinct.size();
  if (distinct == 1)
    return refuse(fmt::format("all labels are equal, {}", shown_name(column.values.front())));
  const bool are_few = distinct <= kFewValues && facts.values >= kRecordsPerClass * distinct;
  if (facts.are_numbers() && distinct > 2 && (facts.whole < facts.numbers || !are_few)) {
    guess.mean = facts.mean();
    guess.deviation = facts.deviation();
    return {};
  }
  if (distinct > kClassesMax || facts.values < 2 * distinct)
    return refuse(
        fmt::format("it has {} different texts in {}", distinct, counted(facts.values, "record")));
  if (distinct < facts.distinct.size())
    return refuse("it writes one number in several ways, such as 1 and 1.0");
  guess.task = distinct == 2 ? Task::kBinary : Task::kClasses;
  guess.task_sure = facts.are_numbers() && distinct > 2 ? Sureness::kLikely : Sureness::kSure;
  sort_classes(facts, guess);
  return {};
}

Status check_commas(const TableSample& sample, const std::string& shown) {
  for (const SampleColumn& column : sample.columns) {
    const Facts facts = facts_of(column);
    if (!facts.are_most_texts(facts.with_commas)) continue;
    return Error{Errc::kData,
                 fmt::format("{}: column {} writes numbers with commas, such as {}", shown,
                             shown_name(column.name), shown_name(*facts.odd.begin())),
                 sample.delimiter == ','
                     ? "write numbers with a point and without commas, as 1234.5"
                     : "write numbers with a point, as 1234.5: sed 's/,/./g' OLD >NEW"};
  }
  return {};
}

}  // namespace

std::string_view sureness_text(Sureness sure) {
  if (sure == Sureness::kSure) return "sure";
  return sure == Sureness::kLikely ? "likely" : "a guess";
}

Result<TableGuess> guess_table(const TableSample& sample, const std::string& label,
                               const std::string& shown) {
  TableGuess guess;
  PADDLE_TRY_STATUS(check_commas(sample, shown));
  PADDLE_TRY_STATUS(find_label(sample, label, shown, guess));
  PADDLE_TRY_STATUS(guess_task(sample, shown, guess));
  bool has_input = sample.format == "libsvm";
  for (std::size_t i = 0; i < sample.columns.size(); ++i) {
    guess.columns.push_back(guess_column(sample, sample.columns[i]));
    has_input = has_input || (i != guess.label && guess.columns.back().is_used());
  }
  if (has_input) return guess;
  return Error{Errc::kData, fmt::format("{}: no column can tell the label", shown),
               "a column needs numbers, or texts that repeat; the label is " +
                   shown_name(sample.columns[guess.label].name) + ", --label names another"};
}

}  // namespace paddle::cli

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
constexpr std::size_t kReasonsShown = 5;

constexpr std::string_view kPlainNumbers =
    "in a spreadsheet, format the column as a number with a point and without thousands "
    "separators, or export with an English locale";

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

bool is_infinite(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && read.ptr == text.data() + text.size() && std::isinf(number);
}

// How a text writes a number that no program reads: "$421.50", "78 %", "1 234", "(3.5)".
struct Decoration {
  std::string before, after;  // "$", "km"
  std::string thousands;      // between groups of three digits
  bool has_commas = false;
  bool is_in_parentheses = false;  // a negative number
  bool has_long_minus = false;     // U+2212

  bool is_there() const {
    return !before.empty() || !after.empty() || !thousands.empty() || is_in_parentheses ||
           has_long_minus;
  }
};

constexpr std::string_view kLongMinus = "\xe2\x88\x92";
constexpr auto kCurrencies = std::to_array<std::string_view>(
    {"$", "us$", "r$", "a$", "c$", "usd", "eur", "gbp", "chf", "inr", "jpy", "cny", "rs", "kr"});

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

bool is_beyond_ascii(char c) {
  return static_cast<unsigned char>(c) >= 0x80;
}

bool is_currency(std::string_view text) {
  constexpr std::size_t kBytesMax = 6;
  return text.empty() || is_one_of(kCurrencies, lower_case(text)) ||
         (text.size() <= kBytesMax && std::ranges::all_of(text, is_beyond_ascii));
}

bool is_unit(std::string_view text) {
  constexpr std::size_t kBytesMax = 8;
  return text == "%" || is_currency(text) ||
         (text.size() <= kBytesMax && std::ranges::all_of(text, [](char c) {
            return c == '/' || is_beyond_ascii(c) || std::isalpha(static_cast<unsigned char>(c));
          }));
}

// Sees what is between the digits: nothing, a point, commas, or separators of thousands.
bool take_digits(const std::string& digits, Decoration& found) {
  static const std::regex groups(
      "\\d{1,3}(?:( |'|\xc2\xa0|\xe2\x80\xaf|\xe2\x80\x89|\xe2\x80\x99)\\d{3})+([.,]\\d+)?",
      std::regex::optimize);
  found.has_commas = digits.find(',') != digits.npos;
  if (is_number(digits) || is_number_with_commas(digits)) return true;
  std::smatch match;
  if (!std::regex_match(digits, match, groups)) return false;
  found.thousands = match[1];
  return true;
}

std::optional<Decoration> decoration_of(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  Decoration found;
  found.is_in_parentheses = text.starts_with('(') && text.ends_with(')');
  if (found.is_in_parentheses) text = text.substr(1, text.size() - 2);
  const std::size_t begin = text.find_first_of(kDigits);
  if (begin == text.npos) return {};
  const std::size_t end = text.find_last_of(kDigits) + 1;
  std::string_view before = text.substr(0, begin);
  for (const std::string_view sign : {std::string_view("-"), std::string_view("+"), kLongMinus}) {
    if (!before.starts_with(sign) && !before.ends_with(sign)) continue;
    if (before.starts_with(sign)) {
      before.remove_prefix(sign.size());
    } else {
      before.remove_suffix(sign.size());
    }
    found.has_long_minus = sign == kLongMinus;
    break;
  }
  found.before = without_blanks(before);
  found.after = without_blanks(text.substr(end));
  const bool is_decorated = is_currency(found.before) && is_unit(found.after) &&
                            take_digits(std::string(text.substr(begin, end - begin)), found) &&
                            found.is_there();
  return is_decorated ? std::optional(found) : std::nullopt;
}

// The text as a regular expression of sed -E inside single quotes.
std::string sed_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) || is_beyond_ascii(c);
    out += c == '\'' ? "'\\''" : is_plain ? std::string(1, c) : fmt::format("[{}]", c);
  }
  return out;
}

// The command that makes plain numbers of them.
std::string strip_command(const Decoration& decoration) {
  std::string command = "sed -E";
  const auto add = [&](const std::string& step) { command += fmt::format(" -e '{}'", step); };
  if (!decoration.thousands.empty()) {
    add(":a");
    add(fmt::format(R"(s|([0-9]){}([0-9]{{3}})|\1\2|)", sed_text(decoration.thousands)));
    add("ta");
  }
  if (decoration.has_long_minus) add(fmt::format("s|{}|-|g", kLongMinus));
  if (!decoration.before.empty())
    add(fmt::format(R"(s|{} *([-0-9])|\1|g)", sed_text(decoration.before)));
  if (!decoration.after.empty())
    add(fmt::format(R"(s/([0-9]) *{}([^[:alpha:]]|$)/\1\2/g)", sed_text(decoration.after)));
  if (decoration.is_in_parentheses) add(R"(s|[(]([0-9.]+)[)]|-\1|g)");
  return command + " OLD >NEW";
}

std::string decoration_text(const Decoration& decoration) {
  if (!decoration.before.empty()) return shown_name(decoration.before);
  if (!decoration.after.empty()) return shown_name(decoration.after);
  if (!decoration.thousands.empty()) return shown_name(decoration.thousands) + " between thousands";
  return decoration.has_long_minus ? shown_name(kLongMinus) + " as minus" : "parentheses";
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
  // The first texts are tried.
  std::uint64_t tried = 0, dates = 0, with_commas = 0, infinite = 0, quoted_numbers = 0;
  std::uint64_t decorated = 0;           // with the same text around the digits as the first one
  std::optional<Decoration> decoration;  // all of theirs together
  bool counts_up = true;                 // each number is the one before plus 1
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

void add_decoration(const std::string& text, Facts& facts) {
  const std::optional<Decoration> found = decoration_of(text);
  if (!found) return;
  if (!facts.decoration) facts.decoration = found;
  Decoration& all = *facts.decoration;
  if (all.before != found->before || all.after != found->after) return;
  ++facts.decorated;
  if (all.thousands.empty()) all.thousands = found->thousands;
  all.has_commas = all.has_commas || found->has_commas;
  all.is_in_parentheses = all.is_in_parentheses || found->is_in_parentheses;
  all.has_long_minus = all.has_long_minus || found->has_long_minus;
}

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
    facts.infinite += is_infinite(text) ? 1 : 0;
    facts.quoted_numbers += is_number(text) ? 1 : 0;
    add_decoration(text, facts);
  }
  return facts;
}

// Why a column of numbers has texts, and the way to make it one of numbers; "": it has none.
std::string cause_of_texts(const TableSample& sample, const SampleColumn& column,
                           const Facts& facts) {
  if (column.is_list || facts.tried == 0) return "";
  if (facts.infinite == facts.tried && facts.numbers > 0) {
    return sample.format == "npz" ? "it contains inf: save NaN instead"
                                  : "it contains inf: empty these fields to make it a number";
  }
  if (facts.quoted_numbers == facts.tried)
    return is_name_of_code(column.name) ? "" : "its numbers are texts: write them without quotes";
  if (!facts.are_most_texts(facts.decorated)) return "";
  const std::string what = "it looks like numbers with " + decoration_text(*facts.decoration);
  if (sample.format != "csv") return what + ": write plain numbers without quotes";
  if (facts.decoration->has_commas) return fmt::format("{}: {}", what, kPlainNumbers);
  return fmt::format("{}: {}; or format it as plain numbers in the spreadsheet", what,
                     strip_command(*facts.decoration));
}

ColumnGuess guess_numbers(const TableSample& sample, const SampleColumn& column,
                          const Facts& facts) {
  ColumnGuess guess{.kind = ColumnKind::kNumber};
  const bool are_whole = facts.whole == facts.numbers;
  const bool can_hash = sample.format != "npz" && column.width == 1;
  if (column.width > 1) return guess;
  if (are_whole && facts.counts_up && facts.missing == 0) {
    guess.kind = ColumnKind::kIdentifier;
    guess.sure = facts.minimum == 0 || facts.minimum == 1 ? Sureness::kSure : Sureness::kLikely;
    guess.note = "each number is the one before plus 1";
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
  const std::string cause = cause_of_texts(sample, column, facts);
  if (cause.empty() || guess.kind == ColumnKind::kDate) return guess;
  guess.kind = sample.format == "npz"  ? ColumnKind::kUnusable
               : distinct > kAlmostAll ? ColumnKind::kIdentifier
                                       : ColumnKind::kCategory;
  guess.sure = Sureness::kGuess;
  guess.note = cause;
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
  // Beside a column x of csv, y is a coordinate, unless one of them is the last column.
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(
        columns, [&](const SampleColumn& column) { return lower_case(column.name) == name; });
  };
  const std::string last = lower_case(columns.back().name);
  const bool is_y_coordinate = sample.format == "csv" && has("x") && last != "x" && last != "y";
  for (const std::string_view name : kLabelNames) {
    if (name == "y" && is_y_coordinate) continue;
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

// `hint`: the next step, if it is not to name another column.
Error no_label(const TableSample& sample, const TableGuess& guess, const std::string& shown,
               std::string_view why, const std::string& hint = "") {
  return {Errc::kUsage,
          fmt::format("{}: column {} is no label: {}", shown,
                      shown_name(sample.columns[guess.label].name), why),
          hint.empty() ? "name the label's column with --label; the columns are " + names_of(sample)
                       : hint};
}

Error equal_labels(const TableSample& sample, const TableGuess& guess, const std::string& shown) {
  const std::string value = shown_name(sample.columns[guess.label].values.front());
  if (sample.is_whole)
    return no_label(sample, guess, shown, fmt::format("all labels are equal, {}", value));
  return no_label(sample, guess, shown,
                  fmt::format("all labels in the first {} of about {} are equal, {}",
                              sample.records, counted(sample.records_all, "record"), value),
                  sample.format == "npz" ? "mix the records of the arrays before you save them"
                  : sample.has_header ? "mix the records: (head -n 1 OLD; sed 1d OLD | shuf) >NEW"
                                      : "mix the records: shuf OLD >NEW");
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
  // 1 and 2 are numbers of classes.
  guess.is_yes_sure = is_one_of(kNo, second) || (is_one_of(kYes, first) && !facts.are_numbers());
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
  if (distinct == 1) return equal_labels(sample, guess, shown);
  if (facts.are_most_texts(facts.dates)) {
    return no_label(sample, guess, shown, "its texts are dates",
                    "make a number of them, such as days since; or name another column with "
                    "--label");
  }
  const bool are_few = distinct <= kFewValues && facts.values >= kRecordsPerClass * distinct;
  if (facts.are_numbers() && distinct > 2 && (facts.whole < facts.numbers || !are_few)) {
    guess.mean = facts.mean();
    guess.deviation = facts.deviation();
    return {};
  }
  const std::string cause = cause_of_texts(sample, column, facts);
  const bool is_spoilt_number =
      !cause.empty() && distinct > kFewValues && facts.quoted_numbers < facts.tried;
  if (is_spoilt_number || distinct > kClassesMax || facts.values < 2 * distinct) {
    return no_label(
        sample, guess, shown,
        fmt::format("it has {} different texts in {}", distinct, counted(facts.values, "record")),
        cause);
  }
  if (distinct < facts.distinct.size())
    return refuse("it writes one number in several ways, such as 1 and 1.0");
  guess.task = distinct == 2 ? Task::kBinary : Task::kClasses;
  guess.task_sure = facts.are_numbers() && distinct > 2 ? Sureness::kLikely : Sureness::kSure;
  if (!cause.empty() && distinct > 2) {
    guess.task_sure = Sureness::kGuess;
    guess.task_note = cause;
  }
  sort_classes(facts, guess);
  if (guess.task == Task::kBinary) {
    const auto first = static_cast<std::uint64_t>(
        std::ranges::count(column.values, std::string_view(guess.classes[0])));
    guess.rare_class = first < facts.values - first ? 0 : 1;
    guess.rare_records = std::min(first, facts.values - first);
  }
  return {};
}

// The way to write numbers with points: sed, if it changes nothing but these numbers.
std::string comma_hint(const TableSample& sample) {
  static const std::regex decimals(R"([-+]?\d+,(\d{1,2}|\d{4,}))", std::regex::optimize);
  static const std::regex with_thousands(R"([-+]?\d{1,3}(\.\d{3})+,\d+)", std::regex::optimize);
  bool has_thousands = false, has_other_commas = false, has_other_points = false;
  for (const SampleColumn& column : sample.columns) {
    for (const std::string_view value : column.values) {
      if (value.find_first_of(",.") == value.npos) continue;
      const std::string text(value.substr(0, kTriedBytes));
      const bool is_large = std::regex_match(text, with_thousands);
      has_thousands = has_thousands || is_large;
      if (is_large || std::regex_match(text, decimals)) continue;
      has_other_commas = has_other_commas || value.find(',') != value.npos;
      has_other_points = has_other_points || value.find('.') != value.npos;
    }
  }
  const bool is_safe =
      sample.delimiter != ',' && !has_other_commas && !(has_thousands && has_other_points);
  if (!is_safe) return fmt::format("write numbers as 1234.5: {}", kPlainNumbers);
  return fmt::format("write numbers as 1234.5: sed{} OLD >NEW",
                     has_thousands ? " -e 's/[.]//g' -e 's/,/./g'" : " 's/,/./g'");
}

Status check_commas(const TableSample& sample, const std::string& shown) {
  for (const SampleColumn& column : sample.columns) {
    const Facts facts = facts_of(column);
    if (!facts.are_most_texts(facts.with_commas)) continue;
    return Error{Errc::kData,
                 fmt::format("{}: column {} writes numbers with commas, such as {}", shown,
                             shown_name(column.name), shown_name(*facts.odd.begin())),
                 comma_hint(sample)};
  }
  return {};
}

// The columns that no network reads, and why: "x: it contains inf; n: ...".
std::string left_out_text(const TableSample& sample, const TableGuess& guess) {
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < sample.columns.size(); ++i) {
    if (i == guess.label) continue;
    if (reasons.size() == kReasonsShown) {
      reasons.emplace_back("and others");
      break;
    }
    const ColumnGuess& column = guess.columns[i];
    const std::string reason = column.kind == ColumnKind::kConstant ? "all values are equal"
                               : column.kind == ColumnKind::kEmpty  ? "it has no values"
                                                                    : column.note;
    reasons.push_back(fmt::format("{}: {}", shown_name(sample.columns[i].name), reason));
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
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
  return Error{
      Errc::kData,
      fmt::format("{}: no column can predict the label {}", shown,
                  shown_name(sample.columns[guess.label].name)),
      fmt::format("left out are {}; --label names another label", left_out_text(sample, guess))};
}

}  // namespace paddle::cli

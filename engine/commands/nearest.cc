// `paddle nearest`: the rows of an embedding table that are most similar to given rows.
#include "engine/model/nearest.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "base/text.h"
#include "engine/commands/command.h"
#include "engine/commands/model_flags.h"
#include "engine/math/allocator.h"
#include "engine/snapshot/export_source.h"

namespace paddle::commands {
namespace {

struct NearestFlags {
  std::string snapshot;
  std::string parameter;
  std::string dictionary;
  std::vector<std::string> queries;
  std::uint32_t count = 10;
  bool centered = false;
  bool ids = false;
  bool json = false;
};

Result<wire::ParameterSpec> choose_table(const snapshot::SnapshotReader& snapshot,
                                         const std::string& name) {
  PADDLE_TRY(std::vector<wire::ParameterSpec> specs, exporting::choose_parameters(snapshot, name));
  if (name.empty()) std::erase_if(specs, [](const auto& spec) { return !spec.sparse(); });
  if (specs.size() == 1) return specs.front();
  std::vector<std::string> names;
  names.reserve(specs.size());
  for (const auto& spec : specs) names.push_back(spec.name());
  return Error{
      Errc::kUsage, fmt::format("{} has {} tables", snapshot.directory(), specs.size()),
      specs.empty()
          ? "--parameter=NAME compares the rows of a dense parameter; see paddle export --list"
          : fmt::format("--parameter names one: {}", fmt::join(names, ", "))};
}

Result<std::uint64_t> parse_id(const std::string& text) {
  std::uint64_t id = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, id);
  if (error == std::errc() && at == end && !text.empty()) return id;
  return Error{Errc::kUsage, fmt::format("'{}' is not the id of a row", text),
               "without a dictionary, rows have only ids"};
}

Result<std::uint64_t> find_word(const std::vector<std::string>& words, const std::string& word) {
  const auto found = std::ranges::find(words, word);
  if (found != words.end()) return static_cast<std::uint64_t>(found - words.begin());
  const std::vector<std::string_view> all(words.begin(), words.end());
  const std::string near = nearest(word, all);
  return Error{
      Errc::kUsage, fmt::format("'{}' is not in the dictionary", word),
      near.empty() ? "pass row numbers with --ids" : fmt::format("did you mean '{}'?", near)};
}

struct Query {
  std::string text;
  std::uint64_t id = 0;
  std::vector<inference::Neighbour> nearest;
};

std::string name_of(const std::vector<std::string>& words, std::uint64_t id) {
  return id < words.size() ? words[id] : std::to_string(id);
}

// "water         wine (0.57)  burning (0.53)".
std::string as_text(const std::vector<Query>& queries, const std::vector<std::string>& words) {
  std::string text;
  for (const Query& query : queries) {
    text += fmt::format("{:<12}", query.text);
    for (const auto& found : query.nearest)
      text += fmt::format("  {} ({:.2f})", name_of(words, found.id), found.cosine);
    text += '\n';
  }
  return escape_lines(text);
}

// {"parameter":"_proj","queries":[{"word":"water","id":7,"nearest":[{"word":"wine","id":9,
//  "cosine":0.57}]}]}; without a dictionary, there is no "word".
std::string as_json_text(const std::string& parameter, const std::vector<Query>& queries,
                         const std::vector<std::string>& words) {
  const auto row = [&](std::uint64_t id) {
    JsonObject fields;
    if (id < words.size()) fields.add("word", words[id]);
    return fields.add("id", id);
  };
  JsonArray all;
  for (const Query& query : queries) {
    JsonArray found;
    for (const auto& each : query.nearest) found.add(row(each.id).add("cosine", each.cosine));
    all.add(row(query.id).add("nearest", found));
  }
  return JsonObject().add("parameter", parameter).add("queries", all).text() + "\n";
}

Result<std::vector<Query>> answer(const NearestFlags& flags,
                                  const snapshot::SnapshotReader& snapshot,
                                  const wire::ParameterSpec& table,
                                  const std::vector<std::string>& words) {
  std::vector<Query> queries;
  std::vector<std::uint64_t> ids;
  for (const std::string& text : flags.queries) {
    PADDLE_TRY(const std::uint64_t id, words.empty() ? parse_id(text) : find_word(words, text));
    queries.push_back({text, id, {}});
    ids.push_back(id);
  }
  PADDLE_TRY(auto found,
             inference::nearest_rows(snapshot, table, ids,
                                     {.count = flags.count, .centered = flags.centered}));
  for (std::size_t i = 0; i < queries.size(); ++i) {
    if (!found[i]) {
      return Error{Errc::kData,
                   fmt::format("'{}' has no row in '{}'", queries[i].text, table.name()),
                   "no record of the training data contains it"};
    }
    queries[i].nearest = *std::move(found[i]);
  }
  return queries;
}

Status run_nearest(const NearestFlags& flags) {
  end_when_out_of_memory("nearest", "ask for fewer rows at a time, or on a larger machine");
  constexpr const char* kExample = "paddle nearest --snapshot=output/pass-00000 king water";
  if (flags.queries.empty())
    return Error{Errc::kUsage, "nearest needs words, or ids of rows", kExample};
  if (flags.ids && !flags.dictionary.empty())
    return Error{Errc::kUsage, "--ids and --dictionary cannot be combined",
                 "name the rows by --ids or by words of --dictionary"};
  PADDLE_TRY(const auto snapshot, open_snapshot(flags.snapshot, kExample));
  PADDLE_TRY(const wire::ParameterSpec table, choose_table(snapshot, flags.parameter));
  std::vector<std::string> words;
  if (!flags.ids) {
    PADDLE_TRY(words, exporting::words_of(snapshot, table, flags.dictionary));
  }
  PADDLE_TRY(const std::vector<Query> queries, answer(flags, snapshot, table, words));
  std::cout << (flags.json ? as_json_text(table.name(), queries, words) : as_text(queries, words));
  return {};
}

std::function<Status()> declare_nearest(FlagSet& flags) {
  const auto options = std::make_shared<NearestFlags>();
  flags.positionals("WORD|ID", "words of the snapshot's dictionary; else numbers of rows",
                    options->queries);
  flags.text("snapshot", "a pass-0000N folder", options->snapshot);
  flags.text("parameter", "parameter whose rows are compared (default: the only table)",
             options->parameter);
  flags.number("count", "number of neighbours of each", options->count, 1, kCountMax);
  flags.boolean("centered", "subtract the mean of all rows from each first", options->centered);
  flags.boolean("ids", "the queries are ids of rows, not words", options->ids);
  flags.text("dictionary", "file with a word a line, in place of the snapshot's dictionary",
             options->dictionary);
  flags.boolean("json", "print one JSON object", options->json);
  return [options] { return run_nearest(*options); };
}

}  // namespace

const Command kNearestCommand{"nearest",
                              "print the words, or rows of a table, with the most similar values",
                              R"(usage: paddle nearest --snapshot=DIR [--parameter=NAME] WORD|ID...

A line is a word and those nearest to it, with the cosine of the angle between
their rows.

examples:
  paddle nearest --snapshot=output/pass-00002 king water
  paddle nearest --snapshot=output/pass-00002 --parameter=_proj --ids 7 300
)",
                              declare_nearest};

}  // namespace paddle::commands

// The pages in docs/ against the code: the keys that files may have, and the tests that are there.
#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/fd.h"
#include "cli/cluster/cluster_file.h"
#include "cli/sweep/sweep_file.h"
#include "cli/watch/metrics_line.h"
#include "engine/config/job_config.h"
#include "engine/config/layer_keys.h"
#include "engine/math/optimizer.h"
#include "engine/math/schedule.h"
#include "proto/command_order.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

using Words = std::set<std::string>;

constexpr const char* kSource = PADDLE_SOURCE_DIR "/";

Words matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  Words words;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
    words.insert((*at)[1]);
  return words;
}

std::string text_of(const std::string& file) {
  auto text = read_file(kSource + file);
  EXPECT_TRUE(text) << file;
  return text ? *std::move(text) : "";
}

// The keys a file's code looks up: table.string("key", ...), read_count(table, "key", ...).
Words keys_read(const std::string& text) {
  return matches(text,
                 R"re((?:\b(?:string|strings|words|choice|integer|number|boolean|tables?)\(\s*|)re"
                 R"re(\b(?:read_\w+(?:<[\w:]+>)?|expand)\(\s*(?:\w+, )?)"(\w+)")re");
}

// Keys between backquotes in the first column of the page's tables.
Words keys_told(const std::string& page) {
  Words told;
  for (const std::string& column : matches(page, R"re(\n\| (`[^|]*) \|)re")) {
    const Words keys = matches(column, R"re(`[\[]*(\w+)[\]]*`)re");
    told.insert(keys.begin(), keys.end());
  }
  return told;
}

TEST(Docs, JobPageHasEveryKeyAndLayerTypeAndNoOther) {
  std::string code;
  for (const auto& entry :
       std::filesystem::directory_iterator(kSource + std::string("engine/config")))
    if (entry.path().string().ends_with("_config.cc"))
      code += text_of("engine/config/" + entry.path().filename().string());
  const std::string page = text_of("docs/job.md");
  Words known = keys_read(code);
  for (const auto types : {config::layer_types(), config::evaluator_types()})
    for (const config::TypeKeys& one : types) known.emplace(one.name);
  for (const optim::Option& option : optim::options()) known.emplace(option.name);
  Words told = keys_told(page);
  for (const std::string& section : matches(page, R"re(\n## \[+(\w+)\])re")) told.insert(section);
  EXPECT_GT(told.size(), 50U);
  EXPECT_EQ(told, known);
}

TEST(Docs, TablesOfKeysHaveShortCells) {
  constexpr std::ptrdiff_t kWordsMax = 30;  // more belongs in a note below the table
  const std::regex cell(R"re([^|]+)re"), word(R"re(\S+)re"), row(R"re(\n\|([^\n]*)\|)re");
  for (const char* file : {"docs/job.md", "docs/cluster.md", "docs/providers.md"}) {
    const std::string page = text_of(file);
    for (std::sregex_iterator at(page.begin(), page.end(), row), end; at != end; ++at) {
      const std::string cells = (*at)[1];
      for (std::sregex_iterator one(cells.begin(), cells.end(), cell); one != end; ++one) {
        const std::string text = one->str();
        const auto words = std::distance(std::sregex_iterator(text.begin(), text.end(), word), end);
        EXPECT_LE(words, kWordsMax) << file << ": " << text;
      }
    }
  }
}

// The choices of a key: words in quotes in its row of the page.
Words choices_told(const std::string& page, const std::string& key) {
  const std::size_t row = page.find("\n| `" + key + "` |");
  EXPECT_NE(row, std::string::npos) << key;
  return matches(page.substr(row, page.find('\n', row + 1) - row), R"re("(\w+)")re");
}

template <class Row>
Words names_in(std::span<const Row> rows) {
  Words names;
  for (const Row& row : rows) names.emplace(row.name);
  return names;
}

TEST(Docs, JobPageHasEveryMethodAndSchedule) {
  const std::string page = text_of("docs/job.md");
  EXPECT_EQ(choices_told(page, "method"), names_in(optim::methods()));
  EXPECT_EQ(choices_told(page, "learning_rate_schedule"), names_in(optim::schedules()));
}

TEST(Docs, ClusterPageHasEveryKeyAndNoOther) {
  const Words told = keys_told(text_of("docs/cluster.md"));
  EXPECT_GT(told.size(), 15U);
  EXPECT_EQ(told, keys_read(text_of("cli/cluster/cluster_file.cc")));
}

TEST(Docs, ProvidersPageHasEveryKeyAndNoOther) {
  Words known;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(kSource) + "cli/cluster")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with("provider.cc")) continue;
    for (const std::string& key : keys_read(text_of("cli/cluster/" + name))) known.insert(key);
  }
  const Words told = keys_told(text_of("docs/providers.md"));
  EXPECT_GT(told.size(), 10U);
  EXPECT_EQ(told, known);
}

TEST(Docs, TrainerPageShowsMetricsThatAreRead) {
  Words kinds;
  for (const std::string& line : matches(text_of("docs/trainer.md"), R"re(\n(\{"kind"[^\n]*))re")) {
    const auto parsed = parse_metrics(line);
    ASSERT_TRUE(parsed) << line;
    kinds.insert(parsed->kind);
    EXPECT_GT(parsed->unix_ms, 0) << line;
    EXPECT_GT(parsed->batch, 0U) << line;
    const bool evaluated = parsed->kind == "train" || parsed->kind == "test";
    EXPECT_EQ(parsed->evaluators().size(), evaluated ? 1U : 0U) << line;
  }
  EXPECT_EQ(kinds, Words({"pass", "save", "test", "train"}));
}

Words links_of(const std::string& text) {
  return matches(text, R"re(\]\(([^)\s]+)\))re");
}

// A page's headings as the fragments of links: "## [[layer]] types" is "layer-types".
Words anchors_of(const std::string& page) {
  Words anchors;
  for (const std::string& heading : matches("\n" + page, R"re(\n#+ ([^\n]*))re")) {
    std::string anchor;
    for (const char c : heading) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
        anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (c == ' ') anchor += '-';
    }
    anchors.insert(anchor);
  }
  return anchors;
}

TEST(Docs, IndexNamesEveryPage) {
  const Words indexed = links_of(text_of("docs/README.md"));
  for (const auto& entry : std::filesystem::directory_iterator(kSource + std::string("docs"))) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".md") || name == "README.md") continue;
    EXPECT_TRUE(indexed.contains(name)) << name;
  }
}

TEST(Docs, LinksLeadToFilesAndHeadingsThatAreThere) {
  std::vector<std::string> pages = {"README.md", "CONTRIBUTING.md"};
  for (const auto& entry : std::filesystem::directory_iterator(kSource + std::string("docs")))
    if (entry.path().extension() == ".md")
      pages.push_back("docs/" + entry.path().filename().string());
  for (const std::string& page : pages) {
    const auto folder = std::filesystem::path(page).parent_path();
    for (const std::string& link : links_of(text_of(page))) {
      if (link.find("://") != link.npos) continue;
      const std::size_t hash = std::min(link.find('#'), link.size());
      const std::string file = hash == 0 ? page : (folder / link.substr(0, hash)).string();
      EXPECT_TRUE(std::filesystem::exists(kSource + file)) << page << " links to " << link;
      if (hash == link.size()) continue;
      EXPECT_TRUE(anchors_of(text_of(file)).contains(link.substr(hash + 1)))
          << page << " links to " << link;
    }
  }
}

// The error's hint leads to a page, and to a heading on it: "see docs/job.md#train". False without
// such a hint.
bool check_page_in_hint(const Error& error) {
  static const std::regex see(R"re(^see (docs/\w+\.md)(?:#(\S+))?$)re");
  std::smatch found;
  if (!std::regex_match(error.hint, found, see)) return false;
  EXPECT_TRUE(std::filesystem::exists(kSource + found[1].str())) << error.hint;
  if (!found[2].matched) return false;
  EXPECT_TRUE(anchors_of(text_of(found[1])).contains(found[2])) << error.message << error.hint;
  return true;
}

// An unknown key in each table of each file, and in a table below it.
TEST(Docs, HintsOfReadersLeadToHeadingsThatAreThere) {
  const test::TemporaryFolder folder;
  Words sections;
  for (const char* room : {"engine/config", "cli/cluster", "cli/sweep"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kSource + std::string(room))) {
      const std::string file = std::string(room) + "/" + entry.path().filename().string();
      sections.merge(matches(text_of(file), R"re(\.tables?\("(\w+)")re"));
    }
  }
  EXPECT_TRUE(sections.contains("place") && sections.contains("parameter"));
  Words names = sections;
  for (const std::string& outer : sections)
    for (const std::string& inner : sections) names.insert(outer + "." + inner);
  int followed = 0;
  const std::string good = folder.write("good/job.toml", "");
  for (const std::string& name : names) {
    const std::string list = fmt::format("[[{}]]\noops = 1\n", name);
    for (const std::string& text : {list, fmt::format("[{}]\noops = 1\n", name)}) {
      const auto job = config::read_job(folder.write("job.toml", text));
      const auto cluster = parse_cluster(text, "cluster.toml");
      const auto sweep = parse_sweep(text, "sweep.toml");
      for (const Error& error : {job.error(), cluster.error(), sweep.error()})
        followed += static_cast<int>(check_page_in_hint(error));
    }
    for (const std::string& set : {name + "=3", name + ".oops=1"}) {
      const auto job = config::read_job(good, {set});
      ASSERT_FALSE(job);
      followed += static_cast<int>(check_page_in_hint(job.error()));
    }
  }
  for (const char* const set : {"name=3", "seed=-1"})
    EXPECT_FALSE(check_page_in_hint(config::read_job(good, {set}).error())) << set;
  EXPECT_GT(followed, 50);
}

// Rows "| work | peer | 1.38 |" of the README's table.
TEST(Docs, ReadmeShowsRatiosThatWereMeasured) {
  const std::string measured = text_of("docs/performance.md");
  const Words ratios = matches(text_of("README.md"), R"re(\n\|[^|\n]*\|[^|\n]*\| (\d\.\d+) \|)re");
  EXPECT_GE(ratios.size(), 5U);
  for (const std::string& ratio : ratios)
    EXPECT_NE(measured.find("| " + ratio + " |"), std::string::npos) << ratio;
}

// The lines of a torch program that change are those that the tutorial patches, which a test runs.
TEST(Docs, ReadmeShowsTheTorchLinesThatAreTested) {
  const std::string page = text_of("docs/python.md");
  const std::string readme = text_of("README.md");
  const std::size_t begin = readme.find("```diff\n");
  ASSERT_NE(begin, std::string::npos);
  const std::string lines = readme.substr(begin + 8, readme.find("```", begin + 8) - begin - 8);
  EXPECT_NE(page.find(" @@\n" + lines + "END\n"), std::string::npos) << lines;
  EXPECT_EQ(matches("\n" + lines, R"re(\n(\+[^\n]+))re").size(), 10U) << lines;
}

// Further digits depend on the CPU and on awk.
TEST(Docs, LinesOfTrainingShowTwoDigits) {
  for (const char* const page : {"README.md", "docs/tutorial.md"}) {
    const Words numbers =
        matches(text_of(page), R"re(\n    pass [^\n]*held-out cost ([^\n]*) \(\d+ samples\))re");
    EXPECT_GE(numbers.size(), 2U) << page;
    for (const std::string& number : numbers) {
      static const std::regex two(R"re((0\.0?\d\d|[1-9]\d0*), \w+ (0\.\d\d|[1-9]\d))re");
      EXPECT_TRUE(std::regex_match(number, two)) << page << ": " << number;
    }
  }
}

// Suite.Name of every test in tests/.
Words tests_written() {
  Words written;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(kSource + std::string("tests"))) {
    if (entry.path().extension() != ".cc") continue;
    const std::string source = text_of(entry.path().string().substr(std::string(kSource).size()));
    static const std::regex regex(R"re(TEST(?:_F|_P)?\((\w+),\s*(\w+)\))re");
    for (std::sregex_iterator at(source.begin(), source.end(), regex), end; at != end; ++at)
      written.insert((*at)[1].str() + "." + (*at)[2].str());
  }
  return written;
}

// All of the sixteen have a test, and the page names the tests that are there.
TEST(Docs, TrapsPageNamesTheTestsOfAllSixteen) {
  Words written = tests_written();
  std::erase_if(written, [](const std::string& name) {
    return matches(name, R"re(\.(Trap\d\d))re").empty();
  });
  const std::string page = text_of("docs/traps.md");
  EXPECT_EQ(matches(page, R"re(`(\w+\.Trap\w+)`)re"), written);
  for (int trap = 1; trap <= 16; ++trap) {
    const std::string row = fmt::format(R"re(\n\| {} \|[^\n]*\.(Trap[^\n]*{:02}))re", trap, trap);
    EXPECT_FALSE(matches(page, row.c_str()).empty()) << trap;
  }
}

// All sources of the programs, one after the other.
std::string product_sources() {
  std::string all;
  for (const char* top : {"base", "proto", "engine", "remote", "cli"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(kSource + std::string(top))) {
      const std::string extension = entry.path().extension();
      if (extension == ".cc" || extension == ".h" || extension == ".cu" || extension == ".proto")
        all += text_of(entry.path().string().substr(std::string(kSource).size()));
    }
  }
  return all;
}

// Identifiers outside of comments.
Words identifiers_of(const std::string& text) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  Words words;
  for (std::size_t at = 0; at < text.size();) {
    if (text.compare(at, 2, "//") == 0) at = std::min(text.find('\n', at), text.size());
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > at) words.insert(text.substr(at, end - at));
    at = std::max(end, at + 1);
  }
  return words;
}

// "`kDeadAfter` (3 s)" of a page: whether some constant of that name has the value.
bool has_value(const std::string& sources, const std::string& constant) {
  static const std::regex parts(R"re((\w+)`\s\(([\d']+)\s?(\w*))re");
  std::smatch match;
  if (!std::regex_search(constant, match, parts)) return false;
  const std::map<std::string, std::string> units = {
      {"ms", "milliseconds"}, {"s", "seconds"}, {"min", "minutes"}, {"h", "hours"}};
  const auto unit = units.find(match[3]);
  std::vector<std::string> values = {match[2].str() + ";"};
  if (unit != units.end())
    values.push_back(fmt::format("std::chrono::{}({});", unit->second, match[2].str()));
  return std::ranges::any_of(values, [&](const std::string& value) {
    return sources.find(fmt::format(" {} = {}", match[1].str(), value)) != sources.npos;
  });
}

// docs/internals.md: tests, identifiers, flags, and constants with their values.
TEST(Docs, InternalsPageNamesWhatTheSourcesHave) {
  const std::string page = text_of("docs/internals.md");
  const std::string sources = product_sources();
  const Words identifiers = identifiers_of(sources);
  const Words tests = tests_written();
  for (const std::string& name : matches(page, R"re(`([A-Z]\w+\.[A-Z]\w+)`)re"))
    EXPECT_TRUE(tests.contains(name)) << name;
  // Names between backquotes, and those in drawings.
  constexpr std::array<const char*, 3> kNames{R"re(`((?:\w+::)*\w+)(?:\(\))?`)re",
                                              R"re((\w+::\w+))re", R"re(\b(k[A-Z]\w+))re"};
  for (const char* const pattern : kNames) {
    for (const std::string& name : matches(page, pattern)) {
      for (const std::string& part : matches(name, R"re((\w+))re"))
        EXPECT_TRUE(identifiers.contains(part)) << name;
    }
  }
  for (const std::string& flag : matches(page, R"re(`--([\w-]+))re")) {
    const bool is_there = sources.find("\"" + flag + "\"") != sources.npos ||
                          sources.find("\"--" + flag + "\"") != sources.npos;
    EXPECT_TRUE(is_there) << flag;
  }
  const Words constants = matches(page, R"re(`(\w+`\s\([\d'][^)]*)\))re");
  EXPECT_GT(constants.size(), 20U);
  for (const std::string& constant : constants)
    EXPECT_TRUE(has_value(sources, constant)) << constant << ")";
  const Words invariants = matches(page, R"re(\n- (INVARIANT: [^\n]*))re");
  EXPECT_GT(invariants.size(), 10U);
  for (const std::string& line : invariants)
    EXPECT_FALSE(matches(line, R"re(`([A-Z]\w+\.[A-Z]\w+)`$)re").empty()) << line;
}

TEST(Docs, PagesNameTestsThatAreThere) {
  const Words written = tests_written();
  for (const char* page : {"docs/launchers.md", "docs/reliability.md"}) {
    const Words named = matches(text_of(page), R"re(`([A-Z]\w+\.[A-Z]\w+)`)re");
    EXPECT_GT(named.size(), 15U) << page;
    for (const std::string& name : named)
      EXPECT_TRUE(written.contains(name)) << page << ": " << name;
  }
}

// Rows "| fault | strategy | ... | tests |": a test of ours, or a fault of the chaos run.
TEST(Docs, EveryPromiseOfReliabilityNamesItsTest) {
  const std::string page = text_of("docs/reliability.md");
  const std::string faults = text_of("tests/fault/chaos_faults.py");
  const std::size_t begin = page.find("\n## What is promised");
  const std::size_t end = page.find("\n## ", begin + 1);
  ASSERT_NE(end, std::string::npos);
  const Words rows = matches(page.substr(begin, end - begin), R"re(\n(\| (?!fault )[^\n]*\|))re");
  EXPECT_GT(rows.size(), 10U);
  for (const std::string& row : rows) {
    const std::string tests = row.substr(row.rfind(" | "));
    const Words runs = matches(tests, R"re(chaos: (\w[\w ]*\w))re");
    EXPECT_FALSE(runs.empty() && matches(tests, R"re(`([A-Z]\w+\.[A-Z]\w+)`)re").empty()) << row;
    for (const std::string& run : runs)
      EXPECT_NE(faults.find("\n    \"" + run + "\": "), std::string::npos) << run;
  }
}

// The table of two commands on one job is that of the code.
TEST(Docs, NodesPageHasTheOrderOfTwoCommands) {
  std::string head = "| at work |";
  std::string line = "|---|";
  std::string rows;
  constexpr std::array<const char*, 5> kWords{"beside", "join", "wait", "refuse", "over"};
  for (const JobCommand holder : all_job_commands()) {
    head += fmt::format(" {} |", name_of(holder));
    line += "---|";
    rows += fmt::format("| {} |", name_of(holder));
    for (const JobCommand newcomer : all_job_commands())
      rows += fmt::format(" {} |", kWords.at(static_cast<std::size_t>(order_of(holder, newcomer))));
    rows += "\n";
  }
  EXPECT_NE(text_of("docs/nodes.md").find(head + "\n" + line + "\n" + rows), std::string::npos)
      << head << "\n"
      << line << "\n"
      << rows;
}

}  // namespace
}  // namespace paddle::cli

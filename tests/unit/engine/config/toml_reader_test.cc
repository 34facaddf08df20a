#include "engine/config/toml_reader.h"

#include <array>
#include <functional>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::config {
namespace {

TomlTable parse(std::string_view text, const std::vector<std::string>& overrides = {}) {
  auto table = TomlTable::parse(text, "job.toml", overrides);
  EXPECT_TRUE(table) << (table ? "" : table.error().message);
  return *std::move(table);
}

std::string first_mistake(TomlTable& table) {
  const Status status = table.finish();
  return status ? "none" : status.error().message;
}

TEST(TomlReader, GivesTypedValuesAndDefaults) {
  TomlTable root = parse("a = 'x'\nb = 3\nc = 2\nd = true\ne = ['p', 'q']\n[f]\ng = 1.5\n");
  EXPECT_EQ(root.string("a"), "x");
  EXPECT_EQ(root.integer("b", 7), 3);
  EXPECT_EQ(root.number("c", 0), 2.0);
  EXPECT_TRUE(root.boolean("d", false));
  EXPECT_EQ(root.strings("e"), (std::vector<std::string>{"p", "q"}));
  EXPECT_EQ(root.table("f").number("g", 0), 1.5);
  EXPECT_EQ(root.string("absent", "default"), "default");
  EXPECT_EQ(root.table("no_table").integer("absent", 9), 9);
  EXPECT_EQ(first_mistake(root), "none");
}

TEST(TomlReader, AnArrayOfNumbersHasWholeOnesToo) {
  TomlTable root = parse("a = [1, -2.5, 3e2]\nb = 1\nc = [1, '2']\nd = [true]\n");
  EXPECT_TRUE(root.is_list("a"));
  EXPECT_FALSE(root.is_list("b"));
  EXPECT_FALSE(root.is_list("absent"));
  EXPECT_EQ(root.numbers("a"), (std::vector<double>{1, -2.5, 300}));
  EXPECT_TRUE(root.numbers("absent").empty());
  root.integer("b", 0);
  EXPECT_EQ(root.numbers("c"), std::vector<double>{1});
  EXPECT_TRUE(root.numbers("d").empty());
  EXPECT_TRUE(first_mistake(root).starts_with(
      "job.toml:3:9: 'c' must be an array of numbers, not a string"));
  TomlTable other = parse("a = [1, 2, 3]\n");
  EXPECT_TRUE(other.numbers("a", 2).empty());
  EXPECT_TRUE(first_mistake(other).starts_with("job.toml:1:5: 'a' has 3 values, but at most 2"));
}

TEST(TomlReader, LiteralsReachAnotherFileUnchanged) {
  TomlTable root = parse(
      "a = [0.1, 1e-05, 3, true, 'x', \"it's \\\"so\\\" = [1]\\n\\tnext\", [1, 'two'], '', 'é']\n"
      "b = [{c = 1}]\nd = 1\n");
  const std::vector<std::string> values = root.literals("a");
  ASSERT_EQ(values.size(), 9U);
  EXPECT_EQ(values[0], "0.1");
  EXPECT_EQ(values[1], "1e-05");
  EXPECT_EQ(values[3], "true");
  EXPECT_EQ(values[4], "\"x\"");
  for (const std::string& value : values) EXPECT_EQ(value.find('\n'), std::string::npos) << value;
  const auto read_again = [&](std::size_t i) {
    TomlTable set = parse("", {"table.key=" + values[i]});
    return set.table("table");
  };
  EXPECT_EQ(read_again(5).string("key"), "it's \"so\" = [1]\n\tnext");
  EXPECT_EQ(read_again(6).words("key"), (std::vector<std::string>{"1", "two"}));
  EXPECT_EQ(read_again(1).number("key", 0), 1e-05);
  EXPECT_EQ(read_again(2).integer("key", 0), 3);
  EXPECT_EQ(read_again(7).string("key", "default"), "");
  EXPECT_EQ(read_again(8).string("key"), "é");
  EXPECT_TRUE(root.literals("absent").empty());
  (void)root.literals("b");
  root.integer("d", 0);
  EXPECT_TRUE(
      first_mistake(root).starts_with("job.toml:2:6: 'b' must be an array of values, not a table"));
}

TEST(TomlReader, ShowsAnUnknownKeyWithASuggestionAndACaret) {
  TomlTable root = parse("name = 'x'\n[train]\n  pases = 3\n");
  root.string("name");
  root.table("train").integer("passes", 1);
  const Status status = root.finish();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kUsage);
  EXPECT_EQ(status.error().message,
            "job.toml:3:3: unknown key 'pases', did you mean 'passes'?\n"
            "    pases = 3\n"
            "    ^");
}

TEST(TomlReader, SuggestsTheKeyForANameThatOtherProgramsHave) {
  const auto suggestion = [](const std::string& text) {
    TomlTable root = parse(text);
    root.table("train").integer("passes", 1);
    TomlTable optimizer = root.table("optimizer");
    optimizer.number("learning_rate", 0);
    optimizer.number("l1", 0);
    optimizer.string("method");
    root.table("data").string("format");
    const std::string all = first_mistake(root);
    const std::size_t at = all.find("did you mean");
    return at == all.npos ? "none" : all.substr(at, all.find('\n') - at);
  };
  EXPECT_EQ(suggestion("[optimizer]\nlr = 1"), "did you mean 'learning_rate'?") << "not 'l1'";
  EXPECT_EQ(suggestion("[train]\nlr = 1"), "did you mean 'optimizer.learning_rate'?");
  EXPECT_EQ(suggestion("[train]\nepochs = 1"), "did you mean 'passes'?");
  EXPECT_EQ(suggestion("epochs = 1"), "did you mean 'train.passes'?");
  EXPECT_EQ(suggestion("[optimizer]\ntype = 'sgd'"), "did you mean 'method'?");
  EXPECT_EQ(suggestion("[data]\ntype = 'csv'"), "did you mean 'format'?");
  EXPECT_EQ(suggestion("[train]\ntype = 'csv'"), "none");
}

TEST(TomlReader, SuggestsTheKeyInItsOwnTable) {
  TomlTable root = parse("[train]\nlearning_rate = 1\n");
  root.table("layer").table("weight").number("learning_rate", 0);  // no section of the file
  root.table("train").integer("passes", 1);
  root.table("optimizer").number("learning_rate", 0);
  EXPECT_EQ(first_mistake(root).substr(0, 77),
            "job.toml:2:1: unknown key 'learning_rate', did you mean 'optimizer.learning_r");
}

// The override was meant to say what the file then lacks.
TEST(TomlReader, AnOverrideOfTheWrongTypeComesBeforeMistakesThatFollowFromIt) {
  TomlTable root =
      parse("[data]\ncolumns = ['age', 'price']\nslot = 'price'\n", {"data.columns=age"});
  TomlTable data = root.table("data");
  const bool has_slot = !data.strings("columns").empty();
  data.string("slot");
  if (!has_slot) data.fail("slot", "'price' is not in [data] columns");
  const Status status = root.finish();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "--set data.columns=age: 'columns' must be an array of strings, not a string");
  EXPECT_EQ(status.error().hint, R"(quote it for the shell: --set 'data.columns=["one", "two"]')");
}

TEST(TomlReader, AnOverrideThatTomlWritesInAnotherWayIsShownInTomlsWay) {
  const auto hint = [](const std::string& value, auto look_up) {
    TomlTable root = parse("", {"a=" + value});
    look_up(root);
    const Status status = root.finish();
    return status ? "none" : status.error().hint;
  };
  const auto number = [](TomlTable& root) { root.number("a", 0); };
  const auto integer = [](TomlTable& root) { root.integer("a", 0); };
  const auto boolean = [](TomlTable& root) { root.boolean("a", false); };
  for (const auto& [value, shown] : std::vector<std::pair<std::string, std::string>>{
           {".1", "0.1"}, {"-.5", "-0.5"}, {"+.5", "0.5"}, {"1.", "1"}, {"007.5", "7.5"}})
    EXPECT_EQ(hint(value, number), "--set a=" + shown) << value;
  EXPECT_EQ(hint("\"0.1\"", number), "--set a=0.1");
  for (const char* const value : {"1e400", "-1e400", "+1e400"})
    EXPECT_EQ(hint(value, number), "a number is from -1.8e308 to 1.8e308") << value;
  EXPECT_EQ(hint("007", integer), "--set a=7");
  for (const char* const value : {"18446744073709551616", "+9223372036854775808",
                                  "-9223372036854775809", "100000000000000000000000"})
    EXPECT_EQ(hint(value, integer), "an integer is from -2^63 to 2^63-1") << value;
  for (const char* const value : {"True", "TRUE", "yes", "on"})
    EXPECT_EQ(hint(value, boolean), "--set a=true") << value;
  for (const char* const value : {"False", "no", "OFF"})
    EXPECT_EQ(hint(value, boolean), "--set a=false") << value;
  for (const auto& look_up : std::vector<std::function<void(TomlTable&)>>{number, integer, boolean})
    EXPECT_TRUE(hint("maybe", look_up).starts_with("see ")) << "of any type";
  EXPECT_TRUE(hint(".5", integer).starts_with("see "));
  EXPECT_EQ(hint("0.1", number), "none");
}

TEST(TomlReader, AnUnknownTableIsAnUnknownKey) {
  TomlTable root = parse("[trian]\npasses = 1\n");
  root.table("train").integer("passes", 1);
  EXPECT_EQ(first_mistake(root),
            "job.toml:1:2: unknown key 'trian', did you mean 'train'?\n"
            "  [trian]\n   ^");
}

TEST(TomlReader, ShowsWrongTypesAtTheValue) {
  TomlTable root = parse("passes = 'three'\n");
  EXPECT_EQ(root.integer("passes", 1), 1);
  EXPECT_EQ(first_mistake(root),
            "job.toml:1:10: 'passes' must be an integer, not a string\n"
            "  passes = 'three'\n           ^");
}

TEST(TomlReader, ShowsRangesAndChoices) {
  TomlTable range = parse("port = 70000\n");
  range.integer("port", 1, 1, 65535);
  EXPECT_TRUE(first_mistake(range).starts_with(
      "job.toml:1:8: 'port' is 70000, but must be from 1 to 65535\n"));
  TomlTable choice = parse("method = 'adagard'\n");
  const std::array<std::string_view, 2> choices{"sgd", "adagrad"};
  choice.choice("method", "sgd", choices);
  EXPECT_TRUE(first_mistake(choice).starts_with(
      "job.toml:1:10: 'method' is 'adagard', but must be one of 'sgd', 'adagrad'; did you mean "
      "'adagrad'?\n"));
}

TEST(TomlReader, TheFirstMistakeOfTheFileIsShownWhateverTheOrderOfLookups) {
  TomlTable root = parse("oops = 1\nb = 'x'\n");
  root.integer("b", 0);
  EXPECT_TRUE(first_mistake(root).starts_with("job.toml:1:1: unknown key 'oops'"));
}

std::string times(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(TomlReader, TheFirstOfManyMistakesIsShown) {
  std::string text = "first = 1\n";
  for (int i = 0; i < 60'000; ++i) text += "k" + std::to_string(i) + " = 1\n";
  TomlTable unknown = parse(text);
  EXPECT_EQ(first_mistake(unknown).substr(0, 30), "job.toml:1:1: unknown key 'fir");

  TomlTable mixed = parse("a = [\n" + times("1,\n", 90'000) + "]\nb = 3\n");
  for (int i = 0; i < 100; ++i) mixed.fail("b", "later");
  EXPECT_TRUE(mixed.strings("a").empty());
  EXPECT_TRUE(first_mistake(mixed).starts_with("job.toml:2:1: 'a' must be an array of strings"));

  // The place that decides counts before others, however many there are.
  TomlTable decided = parse("a = 1\nb = 2\n");
  decided.decides("b");
  decided.fail("b", "decisive");
  for (int i = 0; i < 100; ++i) decided.fail("a", "earlier");
  EXPECT_TRUE(first_mistake(decided).starts_with("job.toml:2:5: decisive"));
}

TEST(TomlReader, MoreThanAFileMayHoldIsRefusedAtItsPlace) {
  const auto error_of = [](const std::string& text) {
    const auto table = TomlTable::parse(text, "job.toml");
    return table ? std::string("none") : table.error().message.substr(0, 80);
  };
  const std::string too_many = "the file has over 200000 keys and values";
  EXPECT_NE(error_of("a = [" + times("1,", 200'000) + "]").find(too_many), std::string::npos);
  EXPECT_NE(error_of(times("[[a]]\n", 201'000)).find(too_many), std::string::npos);
  EXPECT_NE(error_of("a = [" + times("{},", 150'000) + "]").find(too_many), std::string::npos);
  std::string dotted;
  for (int i = 0; i < 14'000; ++i) dotted += "k" + std::to_string(i) + times(".a", 30) + "=1\n";
  EXPECT_NE(error_of(dotted).find(too_many), std::string::npos);
  EXPECT_EQ(error_of("a = [" + times("1,", 100'000) + "]"), "none");

  TomlTable root = parse("a = ['x', 'y', 'z']\n[[b]]\n[[b]]\n[[b]]\n");
  EXPECT_TRUE(root.strings("a", 2).empty());
  EXPECT_TRUE(root.tables("b", 2).empty());
  EXPECT_EQ(root.tables("b", 3).size(), 3U);
  EXPECT_TRUE(first_mistake(root).starts_with("job.toml:1:5: 'a' has 3 values, but at most 2"));
}

TEST(TomlReader, AKeyTheCallerRefusesIsNotUnknownToo) {
  TomlTable root = parse("host = 'a'\n");
  root.fail("host", "a local node has no host");
  EXPECT_TRUE(first_mistake(root).starts_with("job.toml:1:8: a local node has no host\n"));
}

TEST(TomlReader, ReportsSyntaxErrorsWithTheirPlace) {
  const auto table = TomlTable::parse("a = 1\nb = = 2\n", "job.toml");
  ASSERT_FALSE(table);
  EXPECT_TRUE(table.error().message.starts_with("job.toml:2:5: ")) << table.error().message;
}

TEST(TomlReader, ArraysOfTablesKeepTheirOrderAndTheirOwnKeys) {
  TomlTable root = parse("[[node]]\nhost = 'a'\n[[node]]\nhosst = 'b'\n");
  std::vector<TomlTable> nodes = root.tables("node");
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].string("host"), "a");
  EXPECT_EQ(nodes[1].string("host"), "");
  EXPECT_TRUE(first_mistake(root).starts_with("job.toml:4:1: unknown key 'hosst', did you mean"));
}

TEST(TomlReader, AMisspeltKeyIsShownBeforeTheKeyThatIsThenAbsent) {
  TomlTable root = parse("[train]\n[data]\nfromat = 'csv'\n");
  TomlTable data = root.table("data");
  data.string("format");
  data.fail("format", "missing format");
  root.table("train").fail("passes", "missing passes");
  EXPECT_TRUE(first_mistake(root).starts_with("job.toml:3:1: unknown key 'fromat', did you mean"));
}

TEST(TomlReader, TheLineAboveTheCaretIsSafeToPrint) {
  TomlTable tabs = parse("\tpases\t= 3\n");
  EXPECT_EQ(first_mistake(tabs), "job.toml:1:2: unknown key 'pases'\n   pases = 3\n   ^");
  TomlTable hidden = parse("a = 'x\u202ey'\nb = 1\n");
  hidden.integer("a", 0);
  hidden.integer("b", 0);
  EXPECT_EQ(first_mistake(hidden).find("\u202e"), std::string::npos);
}

TEST(TomlReader, AnOverrideThatIsNoTomlIsAString) {
  TomlTable root = parse("", {R"(a=say "hi")", R"(b=C:\new)", "c=1 2"});
  EXPECT_EQ(root.string("a"), "say \"hi\"");
  EXPECT_EQ(root.string("b"), "C:\\new");
  EXPECT_EQ(root.string("c"), "1 2");
  EXPECT_EQ(first_mistake(root), "none");
}

TEST(TomlReader, AnOverrideOfSeveralLinesIsRefused) {
  for (const std::string text :
       {"a.b=1\nc=2", "a.b=one\ntwo", "a.b=\"\"\"one\ntwo\"\"\"", "a.b=[1,\n2]"}) {
    const auto root = TomlTable::parse("", "job.toml", {text});
    ASSERT_FALSE(root) << text;
    EXPECT_EQ(root.error().code, Errc::kUsage);
    EXPECT_EQ(root.error().message, "--set a.b: the value has a line break");
    EXPECT_EQ(root.error().hint, R"(write \n within double quotes: --set 'a.b="one\ntwo"')");
  }
  TomlTable root = parse("", {R"(a="one\ntwo")"});
  EXPECT_EQ(root.string("a"), "one\ntwo");
}

TEST(TomlReader, ShowsWrongTypesOfEveryKind) {
  const auto mistake = [](auto look_up) {
    TomlTable root = parse("a = 1\nb = 'x'\nc = ['p', 2]\n");
    look_up(root);
    const std::string all = first_mistake(root);
    return all.substr(0, all.find('\n'));
  };
  EXPECT_EQ(mistake([](TomlTable& root) { root.string("a"); }),
            "job.toml:1:5: 'a' must be a string, not an integer");
  EXPECT_EQ(mistake([](TomlTable& root) {
              root.integer("a", 0);
              root.number("b", 0);
            }),
            "job.toml:2:5: 'b' must be a number, not a string");
  EXPECT_EQ(mistake([](TomlTable& root) {
              root.integer("a", 0);
              root.boolean("b", false);
            }),
            "job.toml:2:5: 'b' must be true or false, not a string");
  EXPECT_EQ(mistake([](TomlTable& root) {
              root.integer("a", 0);
              root.string("b");
              root.strings("c");
            }),
            "job.toml:3:11: 'c' must be an array of strings, not an integer");
  EXPECT_EQ(mistake([](TomlTable& root) {
              root.integer("a", 0);
              root.table("b");
            }),
            "job.toml:2:5: 'b' must be a table, not a string");
  EXPECT_EQ(mistake([](TomlTable& root) {
              root.integer("a", 0);
              root.string("b");
              root.tables("c");
            }),
            "job.toml:3:6: 'c' must be an array of tables, [[c]], not a string");
}

TEST(TomlReader, OverridesReplaceValuesAndAreNamedInMistakes) {
  TomlTable root = parse("[train]\npasses = 1\n", {"train.passes=3", "train.name=a b", "x.y=[1]"});
  EXPECT_EQ(root.table("train").integer("passes", 0), 3);
  EXPECT_EQ(root.table("train").string("name"), "a b");
  EXPECT_EQ(first_mistake(root), "--set x.y=[1]: unknown key 'x'");
  EXPECT_EQ(TomlTable::parse("", "job.toml", {"=3"}).error().message,
            "--set =3: not of the form key=value");
}

TEST(TomlReader, AnOverrideCannotChangeAList) {
  TomlTable root = parse("[[layer]]\nsize = 3\n[[data.slot]]\n", {"layer.size=4"});
  EXPECT_TRUE(root.tables("layer").empty());
  root.table("data").tables("slot");
  const Status status = root.finish();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "--set layer.size=4: --set cannot change [[layer]]");
  EXPECT_EQ(status.error().hint, "change it in job.toml");
  TomlTable below = parse("", {"data.slot.type=id"});
  below.table("data").tables("slot");
  EXPECT_EQ(first_mistake(below), "--set data.slot.type=id: --set cannot change [[data.slot]]");
}

TEST(TomlReader, ABoundThatOnlyTheTypeSetsIsNotShown) {
  constexpr double kMax = std::numeric_limits<float>::max();
  TomlTable low = parse("rate = -1.0\n");
  low.number("rate", 1, 0, kMax);
  EXPECT_TRUE(first_mistake(low).starts_with("job.toml:1:8: 'rate' is -1, but must be at least 0"));
  TomlTable high = parse("rate = 1e39\n");
  high.number("rate", 1, 0, kMax);
  EXPECT_TRUE(first_mistake(high).starts_with(
      "job.toml:1:8: 'rate' is 1e+39, but must be from 0 to 3.4028234"));
}

std::string refusal(const std::string& text) {
  const auto table = TomlTable::parse(text, "job.toml");
  return table ? "none" : table.error().message.substr(0, table.error().message.find('\n'));
}

std::string repeated(std::string_view part, std::size_t count) {
  std::string text;
  while (count-- > 0) text += part;
  return text;
}

// Each aborted toml++ 3.3, overflowed the stack or was undefined behaviour of it.
TEST(TomlReader, TextThatWouldEndTheProcessIsRefusedAtItsPlace) {
  const std::string name = "a table's name must follow '[' on the same line";
  EXPECT_EQ(refusal("[\n"), "job.toml:1:1: " + name);
  EXPECT_EQ(refusal("a = 1\n  [ # x"), "job.toml:2:3: " + name);
  EXPECT_EQ(refusal("[[ #"), "job.toml:1:1: " + name);
  EXPECT_EQ(refusal("a = [1,\n2]\n[[[a]]]\n"), "job.toml:3:1: " + name);
  EXPECT_EQ(refusal("[.a]"), "job.toml:1:1: " + name);
  EXPECT_EQ(refusal("b = 1\n" + repeated("a.", 200'000) + "a = 1\n"),
            "job.toml:2:64: a key has at most 32 parts");
  EXPECT_EQ(refusal("[" + repeated("'a' . ", 200'000) + "a]\n").substr(0, 10), "job.toml:1");
  EXPECT_EQ(refusal("\u00eb = 1\n"),
            "job.toml:1:1: a character outside ASCII is allowed only in quotes or in a comment");
  EXPECT_EQ(refusal("a = '\u00eb'\u00a0\n"),
            "job.toml:1:8: a character outside ASCII is allowed only in quotes or in a comment");
  EXPECT_EQ(refusal("a = [1,\n  }"), "job.toml:2:3: '}' does not close the '['");
  EXPECT_EQ(refusal("a = \"\"\"\\\n \u00eb\"\"\"\n"),
            "job.toml:1:8: a character outside ASCII cannot follow a backslash");
  const std::string quote = "a quote begins a string, and is not allowed within a word";
  EXPECT_EQ(refusal("n =+\"\ufcff"), "job.toml:1:5: " + quote);
  EXPECT_EQ(refusal("n = 1'\ufcff'\n"), "job.toml:1:6: " + quote);
  EXPECT_EQ(refusal("n = ''\"\ufcff\"\n"), "job.toml:1:7: " + quote);
  EXPECT_EQ(refusal("n'\ufcff' = 1\n"), "job.toml:1:2: " + quote);
  const std::string equals = "'=' is not allowed within a value";
  EXPECT_EQ(refusal("n = [1='\ufcff']\n"), "job.toml:1:7: " + equals);
  EXPECT_EQ(refusal("n =='\ufcff'\n"), "job.toml:1:4: " + equals);
  EXPECT_EQ(refusal("n = 1['\ufcff']\n"), "job.toml:1:6: '[' is not allowed here");
  EXPECT_EQ(refusal("n = {a = 1{'\ufcff'}}\n"), "job.toml:1:11: '{' is not allowed here");
  EXPECT_EQ(refusal("n['\ufcff'] = 1\n"), "job.toml:1:2: '[' is not allowed here");
  EXPECT_EQ(refusal("n = [1.'\ufcff']\n"), "job.toml:1:8: " + quote);
  EXPECT_EQ(refusal("n = 1979-05-27 0'\ufcff'\n"), "job.toml:1:17: " + quote);
  EXPECT_EQ(refusal("\"n\" = [\"a\",'\ufcff'] # '\n[a.'b']\n'c'={\"d\"=1}\n"), "none");
}

TEST(TomlReader, AnErrorDoesNotRepeatAnEndlessLine) {
  const auto table = TomlTable::parse("a = '" + repeated("x", 100'000) + "'\x01", "job.toml");
  ASSERT_FALSE(table);
  EXPECT_LT(table.error().message.size(), 1000U);
}

TEST(TomlReader, DeepNestingIsRefused) {
  for (const char* open : {"[", "{a=", "{a.a.a=[", "[[{a="}) {
    EXPECT_TRUE(refusal("a = " + repeated(open, 50'000)).starts_with("job.toml:1:")) << open;
  }
  EXPECT_EQ(refusal("a = " + repeated("[", 32) + repeated("]", 32)), "none");
  EXPECT_EQ(refusal("a = " + repeated("[", 33) + repeated("]", 33)),
            "job.toml:1:37: values can be nested at most 32 deep");
}

TEST(TomlReader, BytesThatAreNoTextAreRefused) {
  for (const std::string& bad :
       {std::string("a = 1\n\0", 7), std::string("a = '\0'", 7), std::string("a = '\xff'"),
        std::string("a = 1 # \xc3"), std::string("\xed\xa0\x80 = 1"), std::string("a = \x01")}) {
    EXPECT_TRUE(refusal(bad).starts_with("job.toml:")) << refusal(bad);
  }
}

TEST(TomlReader, RefusesNothingThatIsToml) {
  const std::string parts = repeated("a.", 31) + "a";
  for (const std::string& good :
       {parts + " = 1", "[" + parts + "]", "a = [" + repeated("1.5, ", 1000) + "]",
        std::string("a = [\n[ # x\n1],\n[\n]]"), std::string("a = '[' # [\n[b]"),
        std::string("\xef\xbb\xbf[ b ]\n[[ c ]] # \u00eb"), std::string("\"\u00eb\" = '\u00eb'"),
        std::string("a = \"\"\"\"[\n.\\\"\"\"\"\"\"\n[b]"), std::string("a = ''''\n[\n'''\n[b]"),
        std::string("a = \"\"\n'b' = ''\r\n[c]\r\n"),
        std::string("a = {b = [[1]], c.d = '}'}\n[e]"),
        std::string("a = [{b = 'x', 'c' = [\"y\"]}, {},\n {d=1}]\n'e' = 1979-05-27 07:32:00"),
        std::string("a = \"\"\"x\\\n  y\\\\\u00eb\"\"\"")}) {
    EXPECT_EQ(refusal(good), "none") << good;
  }
}

TEST(TomlReader, OverridesAreLookedThroughToo) {
  const auto deep = TomlTable::parse("", "job.toml", {repeated("a.", 200'000) + "a=1"});
  ASSERT_FALSE(deep);
  EXPECT_NE(deep.error().message.find("a key has at most 32 parts"), std::string::npos);
  EXPECT_TRUE(TomlTable::parse("", "job.toml", {"train.name=\u00eb"}));
}

TEST(TomlReader, AFileOverOneMebibyteIsNamed) {
  const test::TemporaryFolder folder;
  const std::string line = "# twelve byte\n";
  folder.write("job.toml", repeated(line, (1U << 20U) / line.size() + 1));
  const auto table = TomlTable::read(folder / "job.toml");
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code, Errc::kUsage);
  EXPECT_EQ(table.error().message, (folder / "job.toml") + ": larger than 1048576 bytes");
}

}  // namespace
}  // namespace paddle::config

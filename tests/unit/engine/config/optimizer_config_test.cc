// Tests of [optimizer] and of the attributes of parameters.
#include <gtest/gtest.h>

#include "engine/config/job_config.h"
#include "tests/support/temporary_folder.h"

namespace paddle::config {
namespace {

class OptimizerConfig : public testing::Test {
 protected:
  OptimizerConfig() { folder_.write("words.txt", "a\n<unk>"); }

  // Reads a job with these lines in [optimizer], and in the weight = { } of a layer.
  Result<JobConfig> job(const std::string& optimizer, const std::string& weight = "") {
    return read_job(folder_.write("job.toml", R"([data]
train = "train.txt"
format = "ngram"
dictionary = "words.txt"
ngram = 2
[[layer]]
name = "words"
type = "embedding"
input = ["word0"]
size = 4
weight = { )" + weight + R"( }
[[layer]]
name = "output"
type = "fc"
input = ["words"]
size = "dictionary"
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["output"]
label = "next"
[optimizer]
)" + optimizer));
  }
  wire::Optimizer good(const std::string& lines) {
    const auto read = job(lines);
    EXPECT_TRUE(read) << read.error().message;
    return read ? read->optimizer : wire::Optimizer();
  }
  // The message without the file's name; [optimizer] is line 22.
  std::string mistake(const std::string& optimizer, const std::string& weight = "") {
    const auto read = job(optimizer, weight);
    if (read) return "none";
    EXPECT_EQ(read.error().code, Errc::kUsage);
    const std::string& message = read.error().message;
    const std::size_t begin = folder_.path().size() + std::string("/job.toml:").size();
    return message.substr(begin, message.find('\n') - begin);
  }

  test::TemporaryFolder folder_;
};

TEST_F(OptimizerConfig, WithoutKeysIsPlainSgd) {
  const wire::Optimizer optimizer = good("");
  EXPECT_EQ(optimizer.method(), "sgd");
  EXPECT_EQ(optimizer.learning_rate(), 0.01F);
  EXPECT_EQ(optimizer.schedule().name(), "constant");
  EXPECT_EQ(optimizer.average().window(), 0);
  EXPECT_FALSE(optimizer.has_momentum() || optimizer.has_beta1() || optimizer.has_epsilon());
}

TEST_F(OptimizerConfig, EveryMethodTakesItsKeys) {
  for (const char* method : {"momentum", "torch_momentum", "adagrad"}) {
    EXPECT_EQ(good(std::string("method = '") + method + "'\nmomentum = 0.5").momentum(), 0.5F);
  }
  for (const char* method : {"decayed_adagrad", "adadelta", "rmsprop"}) {
    const auto optimizer =
        good(std::string("method = '") + method + "'\nmomentum = 0.5\nrho = 0.25\nepsilon = 0.125");
    EXPECT_EQ(optimizer.momentum(), 0.5F);
    EXPECT_EQ(optimizer.rho(), 0.25F);
    EXPECT_EQ(optimizer.epsilon(), 0.125F);
  }
  for (const char* method : {"adam", "adamw", "adamax"}) {
    const auto optimizer =
        good(std::string("method = '") + method + "'\nbeta1 = 0\nbeta2 = 0.5\nepsilon = 0.125");
    EXPECT_TRUE(optimizer.has_beta1());
    EXPECT_EQ(optimizer.beta1(), 0.0F);
    EXPECT_EQ(optimizer.beta2(), 0.5F);
  }
  EXPECT_EQ(good("method = 'adamw'\nweight_decay = 0.25").weight_decay(), 0.25F);
  EXPECT_EQ(good("method = 'ftrl'\nbeta = 0.5").beta(), 0.5F);
  EXPECT_TRUE(good("method = 'rmsprop'").centered());
  EXPECT_FALSE(good("method = 'rmsprop'\ncentered = false").centered());
  EXPECT_EQ(good("method = 'adadelta'").learning_rate(), 1.0F);
}

TEST_F(OptimizerConfig, RegularisationClippingAndAverage) {
  const auto optimizer = good(R"(l1 = 0.5
l2 = 0.25
clip_value = 1
clip_norm = 2
clip_global_norm = 3
average_window = 0.15
min_average_window = 100
max_average_window = 1000)");
  EXPECT_EQ(optimizer.l1(), 0.5F);
  EXPECT_EQ(optimizer.l2(), 0.25F);
  EXPECT_EQ(optimizer.clip_value(), 1.0F);
  EXPECT_EQ(optimizer.clip_norm(), 2.0F);
  EXPECT_EQ(optimizer.clip_global_norm(), 3.0F);
  EXPECT_EQ(optimizer.average().window(), 0.15F);
  EXPECT_EQ(optimizer.average().window_min(), 100U);
  EXPECT_EQ(optimizer.average().window_max(), 1000U);
}

TEST_F(OptimizerConfig, Schedules) {
  for (const char* name : {"poly", "caffe_poly", "exp", "discexp", "linear"}) {
    const auto optimizer =
        good(std::string("learning_rate_schedule = '") + name +
             "'\nlearning_rate_decay_a = 0.5\nlearning_rate_decay_b = 2\nwarmup_samples = 9");
    EXPECT_EQ(optimizer.schedule().name(), name);
    EXPECT_EQ(optimizer.schedule().a(), 0.5);
    EXPECT_EQ(optimizer.schedule().b(), 2);
    EXPECT_EQ(optimizer.schedule().warmup_samples(), 9U);
  }
  for (const char* name : {"manual", "pass_manual"}) {
    const auto schedule = good(std::string("learning_rate_schedule = '") + name +
                               "'\nlearning_rate_args = '10:1.0,200:0.5'")
                              .schedule();
    ASSERT_EQ(schedule.steps_size(), 2);
    EXPECT_EQ(schedule.steps(0).until(), 10U);
    EXPECT_EQ(schedule.steps(0).rate(), 1.0F);
    EXPECT_EQ(schedule.steps(1).until(), 200U);
    EXPECT_EQ(schedule.steps(1).rate(), 0.5F);
  }
}

TEST_F(OptimizerConfig, AParameterHasItsOwnAttributes) {
  const auto read = job("l1 = 0.5\nl2 = 0.5",
                        "initial_mean = -0.5, initial_std = 0.25, learning_rate = 2, l1 = 0, "
                        "l2 = 0.125, clip_value = 3, clip_norm = 4, static = true");
  ASSERT_TRUE(read) << read.error().message;
  const ParameterAttributes& weight = read->layers[0].weight;
  EXPECT_EQ(weight.initial_mean, -0.5F);
  EXPECT_EQ(weight.initial_std, 0.25F);
  EXPECT_EQ(weight.learning_rate, 2.0F);
  EXPECT_EQ(weight.l1, 0.0F);
  EXPECT_EQ(weight.l2, 0.125F);
  EXPECT_EQ(weight.clip_value, 3.0F);
  EXPECT_EQ(weight.clip_norm, 4.0F);
  EXPECT_TRUE(weight.is_static);
  EXPECT_EQ(read->layers[1].weight, ParameterAttributes());
}

TEST_F(OptimizerConfig, NamesWrongValues) {
  EXPECT_EQ(mistake("method = 'adagrd'"),
            "23:10: 'method' is 'adagrd', but must be one of 'sgd', 'momentum', 'torch_momentum', "
            "'adagrad', 'decayed_adagrad', 'adadelta', 'rmsprop', 'adam', 'adamw', 'adamax', "
            "'ftrl'; did "
            "you mean 'adagrad'?");
  EXPECT_EQ(mistake("method = 'ftrl'\nlearning_rate = 0"),
            "24:17: 'learning_rate' is 0, but must be above 0");
  EXPECT_EQ(mistake("learning_rate = nan").substr(0, 6), "23:17:");
  EXPECT_EQ(mistake("method = 'momentum'\nmomentum = 1"),
            "24:12: 'momentum' is 1, but must be below 1");
  EXPECT_EQ(mistake("method = 'adam'\nbeta1 = 1"), "24:9: 'beta1' is 1, but must be below 1");
  EXPECT_EQ(mistake("method = 'adam'\nbeta2 = -1").substr(0, 22), "24:9: 'beta2' is -1, b");
  EXPECT_EQ(mistake("method = 'adam'\nepsilon = 0"), "24:11: 'epsilon' is 0, but must be above 0");
  EXPECT_EQ(mistake("method = 'rmsprop'\nrho = 1"), "24:7: 'rho' is 1, but must be below 1");
  EXPECT_EQ(mistake("method = 'ftrl'\nbeta = 0"), "24:8: 'beta' is 0, but must be above 0");
  EXPECT_EQ(mistake("method = 'rmsprop'\ncentered = 1").substr(0, 6), "24:12:");
  for (const char* key : {"l1", "l2", "clip_value", "clip_norm", "clip_global_norm",
                          "warmup_samples", "average_window"}) {
    EXPECT_NE(mistake(std::string(key) + " = -1").find(std::string("'") + key + "' is -1"),
              std::string::npos)
        << key;
  }
  EXPECT_NE(mistake("average_window = 1.5"), "none");
  for (const char* key : {"initial_std", "learning_rate", "l1", "l2", "clip_value", "clip_norm"}) {
    EXPECT_NE(mistake("", std::string(key) + " = -0.5").find(std::string("11:")), std::string::npos)
        << key;
    EXPECT_NE(mistake("", std::string(key) + " = 1e39"), "none") << key;
  }
}

TEST_F(OptimizerConfig, NamesKeysThatHaveNoMeaning) {
  EXPECT_EQ(mistake("momentum = 0.5"), "23:12: 'momentum' has no effect with method 'sgd'");
  EXPECT_EQ(mistake("method = 'adam'\nrho = 0.5"), "24:7: 'rho' has no effect with method 'adam'");
  EXPECT_EQ(mistake("method = 'adam'\nweight_decay = 0.5"),
            "24:16: 'weight_decay' has no effect with method 'adam'");
  EXPECT_EQ(mistake("method = 'adam'\ncentered = true"),
            "24:12: 'centered' has no effect with method 'adam'");
  EXPECT_EQ(mistake("learning_rate_decay_a = 1"),
            "23:25: 'learning_rate_decay_a' has no effect with schedule 'constant'");
  EXPECT_EQ(mistake("learning_rate_args = '1:1'"),
            "23:22: 'learning_rate_args' has no effect with schedule 'constant'");
  EXPECT_EQ(mistake("min_average_window = 5"),
            "23:22: 'min_average_window' without 'average_window'");
  EXPECT_EQ(mistake("average_window = 0.5\nmin_average_window = 5\nmax_average_window = 4"),
            "25:22: 'max_average_window' is below 'min_average_window'");
}

TEST_F(OptimizerConfig, NamesSchedulesThatAreNotWhole) {
  EXPECT_EQ(mistake("learning_rate_schedule = 'poly'\nlearning_rate_decay_a = 1"),
            "22:1: learning_rate_schedule poly has no 'learning_rate_decay_b'");
  EXPECT_EQ(mistake("learning_rate_schedule = 'manual'"),
            "22:1: learning_rate_schedule manual has no 'learning_rate_args'");
  for (const char* steps :
       {"", "5", "5:", ":1", "5:1,", "5:1;6:1", "5:1,5:2", "-5:1", "5:-1", "5:nan", "5:1 ,6:1"}) {
    const std::string wrong = mistake("learning_rate_schedule = 'manual'\nlearning_rate_args = '" +
                                      std::string(steps) + "'");
    EXPECT_EQ(wrong.substr(0, 6), "24:22:") << steps << " gives " << wrong;
  }
  std::string many = "1:1";
  for (int i = 2; i <= 10001; ++i) many += "," + std::to_string(i) + ":1";
  EXPECT_NE(mistake("learning_rate_schedule = 'manual'\nlearning_rate_args = '" + many + "'"),
            "none");
  EXPECT_NE(mistake("learning_rate_schedule = 'exp'\nlearning_rate_decay_a = 2\n"
                    "learning_rate_decay_b = 1"),
            "none");
  EXPECT_NE(mistake("learning_rate_schedule = 'exp'\nlearning_rate_decay_a = 0.5\n"
                    "learning_rate_decay_b = 0"),
            "none");
}

}  // namespace
}  // namespace paddle::config

/* The demo's workload: an in-memory SQLite database filled with pseudo-random rows and queried.
 *
 * usage: shop train|eval SCALE
 *
 * The two modes share no table, no query text and no random sequence, so that what is measured (eval) is not what
 * was recorded (train). Both end with one line: rows seen and a checksum over every value of every row. Two builds
 * of one source must print the same line; `planish compare` checks that. Nothing here reads the clock, the
 * environment or an address, therefore every run does the same work.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sqlite3.h"

static uint64_t random_state;
static uint64_t checksum = 0xcbf29ce484222325u;
static uint64_t rows_seen;

/* splitmix64: one addition and three mixes, the same sequence everywhere. */
static uint64_t next_random(void) {
  uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static int below(int limit) { return (int)(next_random() % (uint64_t)limit); }

/* Small numbers are frequent, large ones rare: real keys are skewed. */
static int skewed_below(int limit) {
  int a = below(limit), b = below(limit);
  return (int)((int64_t)a * b / limit);
}

static void add_bytes(const unsigned char *bytes, int count) {
  for (int i = 0; i < count; i++) checksum = (checksum ^ bytes[i]) * 0x100000001b3u;
}

static void stop_on(sqlite3 *db, int rc, const char *where) {
  if (rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW) return;
  fprintf(stderr, "shop: %s: %s\n", where, sqlite3_errmsg(db));
  exit(1);
}

static void run_script(sqlite3 *db, const char *sql) { stop_on(db, sqlite3_exec(db, sql, 0, 0, 0), sql); }

static sqlite3_stmt *prepared(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = 0;
  stop_on(db, sqlite3_prepare_v2(db, sql, -1, &statement, 0), sql);
  return statement;
}

/* Binds arguments by letters: i int, d double, s text. Runs to the end, sums up all columns, resets. */
static void run(sqlite3 *db, sqlite3_stmt *statement, const char *kinds, ...) {
  va_list arguments;
  va_start(arguments, kinds);
  for (int i = 0; kinds[i]; i++) {
    if (kinds[i] == 'i') sqlite3_bind_int64(statement, i + 1, va_arg(arguments, int));
    else if (kinds[i] == 'd') sqlite3_bind_double(statement, i + 1, va_arg(arguments, double));
    else sqlite3_bind_text(statement, i + 1, va_arg(arguments, const char *), -1, SQLITE_TRANSIENT);
  }
  va_end(arguments);
  int rc;
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
    rows_seen++;
    for (int column = 0; column < sqlite3_column_count(statement); column++) {
      if (sqlite3_column_type(statement, column) == SQLITE_INTEGER) {
        sqlite3_int64 value = sqlite3_column_int64(statement, column);
        add_bytes((const unsigned char *)&value, sizeof value);
      } else {
        const unsigned char *text = sqlite3_column_text(statement, column);
        if (text) add_bytes(text, sqlite3_column_bytes(statement, column));
      }
    }
  }
  stop_on(db, rc, sqlite3_sql(statement));
  sqlite3_reset(statement);
}

/* Prepares, runs and finalises: the parser and the planner are part of the load, as in real programs. */
#define RUN_ONCE(db, sql, ...)                                                                                     \
  do {                                                                                                             \
    sqlite3_stmt *once = prepared(db, sql);                                                                        \
    run(db, once, __VA_ARGS__);                                                                                    \
    sqlite3_finalize(once);                                                                                        \
  } while (0)

static const char *const words[] = {
    "amber",  "birch",  "copper", "delta",  "ember", "fjord", "garnet", "harbor", "indigo", "jasper", "kettle",
    "lumen",  "meadow", "nickel", "opal",   "pebble", "quartz", "raven", "silver", "timber", "umber",  "velvet",
    "willow", "xenon",  "yarrow", "zephyr", "anchor", "beacon", "cinder", "drift",  "echo",   "flint"};

static const char *phrase(char *out, size_t size, int count) {
  size_t used = 0;
  out[0] = 0;
  for (int i = 0; i < count && used + 12 < size; i++)
    used += (size_t)snprintf(out + used, size - used, "%s%s", i ? " " : "", words[below(32)]);
  return out;
}

/* A shop: customers, products, orders. */
static void train(sqlite3 *db, int scale) {
  char text[160], json[256];
  int customers = 60 * scale, products = 25 * scale, orders = 220 * scale;
  random_state = 20240117;
  run_script(db,
             "CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, city TEXT, joined INT, settings TEXT);"
             "CREATE INDEX customer_city ON customer(city, joined);"
             "CREATE TABLE product(id INTEGER PRIMARY KEY, title TEXT UNIQUE, price REAL, stock INT, parent INT);"
             "CREATE INDEX product_parent ON product(parent);"
             "CREATE TABLE purchase(id INTEGER PRIMARY KEY, customer INT REFERENCES customer(id), product INT,"
             " amount INT, day INT, note TEXT);"
             "CREATE INDEX purchase_customer ON purchase(customer, day);"
             "CREATE INDEX purchase_product ON purchase(product);"
             "CREATE TABLE history(customer INT, day INT, total REAL, PRIMARY KEY(customer, day)) WITHOUT ROWID;"
             "CREATE TRIGGER keep AFTER UPDATE OF stock ON product WHEN new.stock < 0"
             " BEGIN UPDATE product SET stock = 50 WHERE id = new.id; END;");
  sqlite3_stmt *add = prepared(db, "INSERT INTO customer VALUES(?,?,?,?,?)");
  run_script(db, "BEGIN");
  for (int i = 1; i <= customers; i++) {
    snprintf(json, sizeof json, "{\"theme\":\"%s\",\"visits\":%d,\"tags\":[\"%s\",\"%s\"],\"mail\":%s}",
             words[below(32)], below(900), words[below(32)], words[below(32)], below(2) ? "true" : "false");
    run(db, add, "issis", i, phrase(text, sizeof text, 2), words[skewed_below(32)], below(4000), json);
  }
  sqlite3_finalize(add);
  add = prepared(db, "INSERT OR REPLACE INTO product VALUES(?,?,?,?,?)");
  for (int i = 1; i <= products; i++)
    run(db, add, "isdii", i, phrase(text, sizeof text, 4), below(90000) / 100.0, below(500), i / 4);
  sqlite3_finalize(add);
  add = prepared(db, "INSERT INTO purchase(customer,product,amount,day,note) VALUES(?,?,?,?,?)");
  for (int i = 0; i < orders; i++)
    run(db, add, "iiiis", 1 + skewed_below(customers), 1 + skewed_below(products), 1 + below(9), below(730),
        phrase(text, sizeof text, 3 + below(5)));
  sqlite3_finalize(add);
  run_script(db, "COMMIT; ANALYZE;");

  sqlite3_stmt *by_id = prepared(db, "SELECT name, city, joined FROM customer WHERE id = ?");
  sqlite3_stmt *recent = prepared(db, "SELECT p.title, o.amount * p.price FROM purchase o JOIN product p ON p.id = o.product"
                                      " WHERE o.customer = ? AND o.day BETWEEN ? AND ? ORDER BY o.day DESC LIMIT 20");
  sqlite3_stmt *sell = prepared(db, "UPDATE product SET stock = stock - ? WHERE id = ?");
  sqlite3_stmt *total = prepared(db, "INSERT INTO history VALUES(?,?,?) ON CONFLICT(customer, day) DO UPDATE"
                                     " SET total = total + excluded.total");
  for (int i = 0; i < 260 * scale; i++) {
    int customer = 1 + skewed_below(customers);
    run(db, by_id, "i", customer);
    if (i % 3 == 0) {
      int day = below(700);
      run(db, recent, "iii", customer, day, day + 60);
    }
    if (i % 5 == 0) {
      if (i % 1000 == 0) run_script(db, "BEGIN");
      run(db, sell, "ii", 1 + below(4), 1 + skewed_below(products));
      run(db, total, "iid", customer, below(30), below(10000) / 100.0);
      if (i % 1000 == 995) run_script(db, "COMMIT");
    }
  }
  if (!sqlite3_get_autocommit(db)) run_script(db, "COMMIT");
  sqlite3_finalize(by_id), sqlite3_finalize(recent), sqlite3_finalize(sell), sqlite3_finalize(total);

  for (int i = 0; i < 2 + scale / 8; i++) {
    RUN_ONCE(db, "SELECT city, count(*), avg(joined), max(name) FROM customer WHERE joined > ? GROUP BY city ORDER BY 2 DESC",
             "i", below(2000));
    RUN_ONCE(db, "SELECT c.city, sum(o.amount * p.price) AS worth FROM purchase o JOIN customer c ON c.id = o.customer"
                 " JOIN product p ON p.id = o.product WHERE o.day < ? GROUP BY c.city HAVING worth > 100 ORDER BY worth",
             "i", 60 + below(120));
    RUN_ONCE(db, "SELECT id, title FROM product WHERE title LIKE ? ORDER BY price LIMIT 50", "s",
             below(2) ? "%quartz%" : "a%er%");
    RUN_ONCE(db, "SELECT settings->>'$.theme', count(*), sum(json_extract(settings,'$.visits')) FROM customer"
                 " WHERE json_extract(settings,'$.mail') = 1 AND id % 7 = ? GROUP BY 1", "i", below(7));
    RUN_ONCE(db, "WITH RECURSIVE up(id, depth) AS (SELECT ?, 0 UNION ALL SELECT p.parent, depth + 1 FROM product p, up"
                 " WHERE p.id = up.id AND p.parent > 0) SELECT count(*), max(depth) FROM up", "i", 1 + below(products));
    RUN_ONCE(db, "SELECT name FROM customer WHERE id IN (SELECT customer FROM purchase WHERE product = ?) AND city <> ?",
             "is", 1 + skewed_below(products), "opal");
    RUN_ONCE(db, "SELECT note, length(note), upper(substr(note, 1, 5)) FROM purchase WHERE note LIKE '%silver timber%'"
                 " ORDER BY note, id LIMIT 40", "");
    RUN_ONCE(db, "SELECT DISTINCT day / 30, count(*) FILTER (WHERE amount > 4) OVER (PARTITION BY day / 30) FROM purchase"
                 " WHERE customer < ?", "i", customers / 8);
    RUN_ONCE(db, "DELETE FROM purchase WHERE id % 97 = ?", "i", below(97));
  }
  RUN_ONCE(db, "SELECT customer, sum(total) FROM history GROUP BY customer ORDER BY 2 DESC LIMIT 100", "");
}

/* Weather stations and articles with links: other tables, types, key shapes and mix. */
static void evaluate(sqlite3 *db, int scale) {
  char text[240], key[48], json[256];
  int stations = 12 * scale, readings = 240 * scale, articles = 30 * scale;
  random_state = 990000001;
  run_script(db,
             "CREATE TABLE station(code TEXT PRIMARY KEY, region TEXT NOT NULL, height REAL, facts TEXT);"
             "CREATE TABLE reading(station TEXT, minute INT, celsius REAL, wind REAL, flags INT,"
             " PRIMARY KEY(station, minute));"
             "CREATE INDEX reading_minute ON reading(minute);"
             "CREATE TABLE article(id INTEGER PRIMARY KEY, slug TEXT UNIQUE, body TEXT, score INT);"
             "CREATE TABLE link(source INT, target INT, weight REAL, PRIMARY KEY(source, target)) WITHOUT ROWID;"
             "CREATE VIEW warm AS SELECT station, avg(celsius) AS mean FROM reading GROUP BY station;");
  run_script(db, "BEGIN");
  sqlite3_stmt *add = prepared(db, "INSERT INTO station VALUES(?,?,?,?)");
  for (int i = 0; i < stations; i++) {
    snprintf(key, sizeof key, "%s-%05d", words[i % 32], i);
    snprintf(json, sizeof json, "{\"owner\":{\"name\":\"%s\",\"since\":%d},\"sensors\":[%d,%d,%d]}", words[below(32)],
             1950 + below(70), below(100), below(100), below(100));
    run(db, add, "ssds", key, words[16 + below(16)], below(300000) / 100.0, json);
  }
  sqlite3_finalize(add);
  add = prepared(db, "INSERT OR IGNORE INTO reading VALUES(?,?,?,?,?)");
  for (int i = 0; i < readings; i++) {
    int station = below(stations);
    snprintf(key, sizeof key, "%s-%05d", words[station % 32], station);
    run(db, add, "siddi", key, below(100000), below(6000) / 100.0 - 20.0, below(300) / 10.0, below(16));
  }
  sqlite3_finalize(add);
  add = prepared(db, "INSERT INTO article VALUES(?,?,?,?)");
  for (int i = 1; i <= articles; i++) {
    snprintf(key, sizeof key, "%s-%s-%d", words[below(32)], words[below(32)], i);
    run(db, add, "issi", i, key, phrase(text, sizeof text, 6 + below(14)), below(1000));
  }
  sqlite3_finalize(add);
  add = prepared(db, "INSERT OR REPLACE INTO link VALUES(?,?,?)");
  for (int i = 0; i < articles * 4; i++)
    run(db, add, "iid", 1 + below(articles), 1 + skewed_below(articles), below(1000) / 1000.0);
  sqlite3_finalize(add);
  run_script(db, "COMMIT");

  sqlite3_stmt *latest = prepared(db, "SELECT minute, celsius, wind FROM reading WHERE station = ? AND minute >= ?"
                                      " ORDER BY minute LIMIT 12");
  sqlite3_stmt *neighbours = prepared(db, "SELECT a.slug, l.weight FROM link l CROSS JOIN article a ON a.id = l.target"
                                          " WHERE l.source = ? ORDER BY l.weight DESC, a.slug");
  sqlite3_stmt *by_slug = prepared(db, "SELECT id, length(body) FROM article WHERE slug >= ? ORDER BY slug LIMIT 3");
  sqlite3_stmt *vote = prepared(db, "UPDATE article SET score = score + ?, body = substr(body, 1, 180) WHERE id = ?");
  sqlite3_stmt *clear = prepared(db, "DELETE FROM reading WHERE minute = ?");
  for (int i = 0; i < 130 * scale; i++) {
    int station = skewed_below(stations);
    snprintf(key, sizeof key, "%s-%05d", words[station % 32], station);
    run(db, latest, "si", key, below(90000));
    if (i % 2) run(db, neighbours, "i", 1 + below(articles));
    if (i % 4 == 0) run(db, by_slug, "s", words[below(32)]);
    if (i % 6 == 0) run(db, vote, "ii", below(5) - 2, 1 + skewed_below(articles));
    if (i % 9 == 0) run(db, clear, "i", below(100000));
  }
  sqlite3_finalize(latest), sqlite3_finalize(neighbours), sqlite3_finalize(by_slug);
  sqlite3_finalize(vote), sqlite3_finalize(clear);

  for (int i = 0; i < 1 + scale / 10; i++) {
    RUN_ONCE(db, "SELECT s.region, min(r.celsius), max(r.celsius), avg(r.wind), count(*) FROM reading r JOIN station s"
                 " ON s.code = r.station WHERE r.flags & 3 = ? GROUP BY s.region ORDER BY 4", "i", below(4));
    RUN_ONCE(db, "SELECT minute / 1440 AS day, total(wind) FROM reading WHERE minute BETWEEN ? AND 60000 GROUP BY day"
                 " HAVING count(*) > 2 ORDER BY day DESC", "i", below(20000));
    RUN_ONCE(db, "SELECT id, slug FROM article WHERE body LIKE '%raven%' AND slug NOT LIKE 'e%' ORDER BY score DESC, id"
                 " LIMIT ?", "i", 20 + below(20));
    RUN_ONCE(db, "WITH RECURSIVE reach(id, hops) AS (VALUES(?, 0) UNION SELECT l.target, hops + 1 FROM reach"
                 " JOIN link l ON l.source = reach.id WHERE hops < 4) SELECT hops, count(DISTINCT id) FROM reach GROUP BY hops",
             "i", 1 + below(articles));
    RUN_ONCE(db, "SELECT facts->'$.owner'->>'name', count(*), sum(value) FROM station, json_each(facts, '$.sensors')"
                 " WHERE value > ? GROUP BY 1 ORDER BY 1", "i", 10 + below(60));
    RUN_ONCE(db, "SELECT code, mean FROM station JOIN warm ON warm.station = code WHERE mean > ? ORDER BY mean LIMIT 25", "d",
             5.0 + below(10));
    RUN_ONCE(db, "SELECT slug, rank() OVER (ORDER BY score DESC) AS place FROM article WHERE id % 5 = ? ORDER BY place, id"
                 " LIMIT 30", "i", below(5));
  }
  RUN_ONCE(db, "SELECT json_group_array(score) FROM (SELECT score FROM article ORDER BY score, id LIMIT 200)", "");
}

int main(int argc, char **argv) {
  int scale = argc > 2 ? atoi(argv[2]) : 0;
  if (scale < 1 || (strcmp(argv[1], "train") && strcmp(argv[1], "eval"))) {
    fprintf(stderr, "usage: %s train|eval SCALE   (SCALE: 1 or more; 100 takes a third of a second)\n", argv[0]);
    return 2;
  }
  sqlite3 *db = 0;
  if (sqlite3_open(":memory:", &db) != SQLITE_OK) return 1;
  if (argv[1][0] == 't') train(db, scale);
  else evaluate(db, scale);
  sqlite3_close(db);
  printf("%s scale %d: %" PRIu64 " rows, checksum %016" PRIx64 "\n", argv[1], scale, rows_seen, checksum);
  return 0;
}

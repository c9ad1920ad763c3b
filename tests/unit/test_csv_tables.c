/* CSV: cells, quotes, and the one line for what is wrong. */
#include "check.h"
#include "csv.h"

static spt_error err;

static spt_status parse(spt_csv *csv, const char *text)
{
    return spt_csv_parse(csv, text, strlen(text), "t.csv", &err);
}

static void test_cells(void)
{
    spt_csv csv = {0};
    CHECK_OK(parse(&csv, "\xef\xbb\xbf"
                         "a,b,c\r\n1,\"x, \"\"y\"\"\nz\",\n\n2,w,7\n"),
             &err, "a table with quotes, an empty line and CR LF");
    CHECK_INT((long long)csv.rows, 2, "has two rows");
    CHECK_TEXT(spt_csv_text(&csv, 0, "b"), "x, \"y\"\nz",
               "a quoted cell keeps commas, quotes and line ends");
    CHECK_TEXT(spt_csv_text(&csv, 0, "c"), "", "an empty cell is empty");
    CHECK_INT(csv.lines[1], 5, "lines are counted through quotes");
    CHECK(spt_csv_has(&csv, "c a") && !spt_csv_has(&csv, "a d"),
          "columns are found by name");
    double v = 0;
    CHECK_OK(spt_csv_number(&csv, 1, "c", 0, 9, -1, &v, &err), &err,
             "a number is read");
    CHECK_NEAR(v, 7, 0, "as what it is");
    CHECK_OK(spt_csv_number(&csv, 0, "c", 0, 9, -1, &v, &err), &err,
             "an empty cell");
    CHECK_NEAR(v, -1, 0, "gives the caller's value");
    CHECK(spt_csv_number(&csv, 1, "c", 0, 6, -1, &v, &err) == SPT_E_FORMAT,
          "a number out of bounds is refused");
    CHECK_TEXT(err.text, "t.csv:5: c is '7', expected a number from 0 to 6",
               "with file, line, column and bounds");
    CHECK(spt_csv_number(&csv, 1, "b", 0, 6, -1, &v, &err) == SPT_E_FORMAT,
          "and so is a word");
    spt_csv_free(&csv);
}

static void test_refusals(void)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "t.csv: empty, expected a header and rows"},
        {"a,b\n1\n", "t.csv:2: 1 cells, expected 2 as in the header"},
        {"a\n\"x\n", "t.csv:2: a quote that nothing closes"},
        {"a\n\"x\"y\n", "t.csv:2: text after a closing quote, expected ','"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spt_csv csv = {0};
        CHECK(parse(&csv, cases[i].text) == SPT_E_FORMAT, "refused: %s",
              cases[i].says);
        CHECK_TEXT(err.text, cases[i].says, "in those words");
        spt_csv_free(&csv);
    }
    spt_csv csv = {0};
    CHECK(spt_csv_parse(&csv, "a\nx\0y\n", 6, "t.csv", &err) == SPT_E_FORMAT,
          "a NUL byte is refused");
    spt_csv_free(&csv);
}

int main(void)
{
    test_cells();
    test_refusals();
    return check_done();
}

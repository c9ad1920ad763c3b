#include "ngram.h"

spt_status spt_ngram_launch(const spt_driver *driver,
                            const spt_function *kernel,
                            const spt_ngram_args *args, int64_t batch,
                            CUstream stream, spt_error *err)
{
    spt_ngram_args copy = *args;
    const int64_t grid[3] = {batch, 1, 1};
    if (args->min_match < 1 || args->max_match < args->min_match)
        return spt_fail(err, SPT_E_USAGE,
                        "ngram: matches of %d to %d tokens, expected 1 <= min "
                        "<= max",
                        args->min_match, args->max_match);
    if (args->matches < 1 || args->matches > SPT_NGRAM_MATCHES)
        return spt_fail(err, SPT_E_USAGE, "ngram: %d matches, expected 1 to %d",
                        args->matches, SPT_NGRAM_MATCHES);
    return spt_launch(driver, kernel, grid, &copy, stream, "ngram", err);
}

/* Element of the KV cache where a slot of sequence s begins, head 0. */
template <typename Args>
__device__ __forceinline__ long long slot_of(const Args &args, int s, int slot)
{
//% if PAGE_SIZE > 0 then
    long long page = args.page_table[static_cast<long long>(s) * args.page_table_stride + slot / PAGE_SIZE];
    return page * args.kv_page_stride + slot % PAGE_SIZE * args.kv_token_stride;
//% else
    return (args.kv_start[s] + slot) * args.kv_token_stride;
//% end
}

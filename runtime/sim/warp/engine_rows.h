/* The row kinds of ops_*.def: SIM_PASS 1 defines handlers, 2 table rows. */
#undef V1
#undef V2
#undef V3
#undef L1
#undef L2
#undef L3
#undef P2
#undef Q1
#undef Q2
#if SIM_PASS == 1
#define V1(name, T, keys, expr) SIM_DEFINE_V(name, T, expr)
#define V2(name, T, keys, expr) SIM_DEFINE_V(name, T, expr)
#define V3(name, T, keys, expr) SIM_DEFINE_V(name, T, expr)
#define L1(name, d, a, keys, expr) SIM_DEFINE_L(name, d, a, a, a, expr)
#define L2(name, d, a, b, keys, expr) SIM_DEFINE_L(name, d, a, b, a, expr)
#define L3(name, d, a, b, c, keys, expr) SIM_DEFINE_L(name, d, a, b, c, expr)
#define P2(name, T, keys, expr) SIM_DEFINE_P(name, T, expr)
#define Q1(name, a, keys, expr) SIM_DEFINE_Q(name, a, a, expr)
#define Q2(name, a, b, keys, expr) SIM_DEFINE_Q(name, a, b, expr)
#else
#define V1(name, T, keys, expr) SIM_ROW(name, keys)
#define V2(name, T, keys, expr) SIM_ROW(name, keys)
#define V3(name, T, keys, expr) SIM_ROW(name, keys)
#define L1(name, d, a, keys, expr) SIM_ROW(name, keys)
#define L2(name, d, a, b, keys, expr) SIM_ROW(name, keys)
#define L3(name, d, a, b, c, keys, expr) SIM_ROW(name, keys)
#define P2(name, T, keys, expr) SIM_ROW(name, keys)
#define Q1(name, a, keys, expr) SIM_ROW(name, keys)
#define Q2(name, a, b, keys, expr) SIM_ROW(name, keys)
#endif

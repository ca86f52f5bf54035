package load
import ("testing";"os";"plimsoll/profile";"time";"fmt")
func TestTry(t *testing.T){
 u:=os.Getenv("U"); if u=="" {t.Skip()}
 for _,o:=range []Options{{BaseURL:u},{BaseURL:u,Prompts:PromptText},{BaseURL:u,Endpoint:Chat}} {
 c:=client(t,o)
 p,err:=c.Probe(t.Context())
 fmt.Printf("%+v %v\n",p,err)
 for _,n:=range []int{1,4}{
 w:=profile.Workload{ISL:128,OSL:40,Requests:20*n,InFlight:n,Arrival:profile.ClosedLoop,Seed:1,Timeout:20*time.Second}
 rs:=measure(t,c,w)
 var tt,tp []time.Duration; bad:=0; pt:=map[int]int{}; ca:=0
 for _,r:=range rs { ordered(t,r); if !r.OK(){bad++; fmt.Println(r.Failure,r.Error)}; tt=append(tt,r.TTFT()); tp=append(tp,r.TPOT()); pt[r.PromptTokens]++; ca=max(ca,r.CachedTokens)}
 fmt.Println(n,"bad",bad,"ttft",profile.Describe(tt).P50,"tpot",profile.Describe(tp).P50,pt,"cached",ca)
 fmt.Printf("%+v\n",Assess(rs))
 }}
}

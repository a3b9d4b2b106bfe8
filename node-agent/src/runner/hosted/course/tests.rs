use super::*;

fn at(seconds: u64) -> Mono {
    Mono::from_micros(seconds * 1_000_000)
}

fn course() -> Course {
    let (limit, grace, lease) = (Duration::from_secs(100), Duration::from_secs(10), Duration::from_secs(20));
    Course::new(at(1_000), (limit, grace, lease), at(1_019))
}

fn stop(reason: StopReason, at_once: bool) -> Stop {
    Stop { reason, at_once }
}

#[test]
fn without_a_renewal_it_is_told_and_killed_before_it_must_be_gone() {
    let mut course = course();
    // A fifth of the lease is shorter than the grace.
    assert_eq!(course.next(), at(1_014));
    assert_eq!(course.due(at(1_013)), None);
    let told = Due::Stop { why: Why::CutOff, grace: Duration::from_secs(4) };
    assert_eq!(course.due(at(1_014)), Some(told));
    assert_eq!(course.due(at(1_018)), Some(Due::Kill));
    assert_eq!((course.next(), course.why), (Mono::MAX, Some(Why::CutOff)));
}

#[test]
fn a_renewal_moves_it_up_to_the_hard_limit() {
    let mut course = course();
    assert!(course.extend(at(1_500)) && !course.extend(at(1_400)));
    assert_eq!(course.due(at(1_050)), None);
    let told = Due::Stop { why: Why::Limit, grace: Duration::from_secs(10) };
    assert_eq!((course.next(), course.due(at(1_100))), (at(1_100), Some(told)));
    assert_eq!((course.due(at(1_109)), course.due(at(1_110))), (None, Some(Due::Kill)));
}

#[test]
fn an_order_counts_once_and_one_at_once_hurries_it() {
    let mut course = course();
    course.extend(at(1_500));
    let first = course.ordered(at(1_001), stop(StopReason::Drained, false));
    let grace = Duration::from_secs(10);
    assert_eq!(first, Some(Due::Stop { why: Why::Ordered(StopReason::Drained), grace }));
    assert_eq!(course.ordered(at(1_002), stop(StopReason::Cancelled, false)), None);
    assert_eq!(course.ordered(at(1_003), stop(StopReason::Drained, true)), Some(Due::Kill));
    assert_eq!(course.ordered(at(1_004), stop(StopReason::Drained, true)), None);
    assert_eq!(course.why, Some(Why::Ordered(StopReason::Drained)));
}

#[test]
fn at_the_soft_limit_it_is_asked_to_wrap_up_and_stopped_if_it_does_not() {
    let mut course = course().with_soft(Some(Duration::from_secs(30)), Duration::from_secs(20));
    course.extend(at(2_000));
    assert_eq!((course.next(), course.asked), (at(1_030), false));
    assert_eq!(course.due(at(1_031)), Some(Due::WrapUp { grace: Duration::from_secs(20) }));
    assert_eq!((course.due(at(1_050)), course.asked), (None, true));
    let told = Due::Stop { why: Why::SoftLimit, grace: Duration::from_secs(10) };
    assert_eq!(course.due(at(1_051)), Some(told));
    assert_eq!(course.due(at(1_061)), Some(Due::Kill));
    assert!(super::Course::with_soft(course, None, Duration::ZERO).soft.is_none());
}

#[test]
fn a_limit_near_the_end_of_the_lease_leaves_less_grace() {
    let mut course = Course::new(
        at(0),
        (Duration::from_secs(12), Duration::from_secs(10), Duration::from_secs(20)),
        at(19),
    );
    let told = Due::Stop { why: Why::Limit, grace: Duration::from_secs(6) };
    assert_eq!(course.due(at(12)), Some(told));
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn silence_is_a_fault_while_it_runs_and_none_while_it_is_parked() {
    let mut course = course().with_silence(Some(seconds(5)));
    course.extend(at(2_000));
    assert_eq!((course.next(), course.due(at(1_004))), (at(1_005), None));
    course.heard(at(1_004));
    assert_eq!((course.next(), course.due(at(1_005))), (at(1_009), None));
    course.pause(true, at(1_006));
    assert_eq!((course.next(), course.due(at(1_080))), (course.cut_off(), None));
    course.pause(false, at(1_080));
    assert_eq!(course.next(), at(1_085));
    assert_eq!(course.due(at(1_085)), Some(Due::Stop { why: Why::Stalled, grace: seconds(10) }));
    assert_eq!(course.due(at(1_095)), Some(Due::Kill));
}

#[test]
fn parked_it_spends_none_of_its_limits_but_its_lease_runs_on() {
    let mut course = course().with_soft(Some(seconds(30)), seconds(20));
    course.extend(at(5_000));
    course.pause(true, at(1_010));
    course.pause(true, at(1_020));
    assert_eq!(course.due(at(1_500)), None);
    course.pause(false, at(1_510));
    course.pause(false, at(1_520));
    assert_eq!((course.next(), course.ran_for(at(1_520))), (at(1_530), seconds(20)));
    assert_eq!(course.due(at(1_530)), Some(Due::WrapUp { grace: seconds(20) }));
    // What is left of the time to wrap up is there after another wait, too.
    course.pause(true, at(1_540));
    assert_eq!((course.due(at(1_900)), course.ran_for(at(1_900))), (None, seconds(40)));
    course.pause(false, at(1_900));
    assert_eq!(course.next(), at(1_910));
    course.pause(true, at(1_905));
    let told = Due::Stop { why: Why::CutOff, grace: seconds(4) };
    assert_eq!(course.due(at(4_995)), Some(told), "nobody has renewed it");
    assert_eq!(course.due(at(4_999)), Some(Due::Kill));
}

#[test]
fn who_must_detach_and_does_not_is_stopped_like_one_that_does_not_stop() {
    let mut course = course();
    course.extend(at(2_000));
    course.must_detach(at(1_010), seconds(30));
    course.must_detach(at(1_020), seconds(30));
    assert_eq!((course.next(), course.due(at(1_039))), (at(1_040), None));
    assert_eq!(course.due(at(1_040)), Some(Due::Stop { why: Why::Detach, grace: seconds(10) }));
    assert_eq!(course.due(at(1_050)), Some(Due::Kill));
}

"""Hindi, as engineers write it: terms of the field and names of code in Latin script."""

PHRASES = {
    "and": "{names} और {last}",
    "and_others": "{names} और अन्य",
    "quoted": "“{text}” (English में)",
    "in_function": ", {function}(){module} में",
    "in_module": " (module {module})",
    "no_place": "प्रोग्राम",
    # -- what happened
    "symptom": "{what} {value} है",
    "symptom_step": "{what} स्टेप {step} से {value} है",
    "loss": "loss",
    "output": "आउटपुट {name}",
    "gradient": "{name} का ग्रेडिएंट",
    "gradient_plain": "ग्रेडिएंट",
    "parameter": "पैरामीटर {name}",
    "cause_failed": "{symptom}। कारण {place}{where} है: {title}।",
    "cause_silent": (
        "प्रोग्राम के काम की किसी संख्या में NaN या inf नहीं है, पर संख्याएँ वैसी नहीं हैं जैसी होनी चाहिए। कारण {place}{where} है: {title}।"
    ),
    "cause_plain": "संख्याएँ वैसी नहीं हैं जैसी होनी चाहिए। कारण {place}{where} है: {title}।",
    "cause_latent": "यह रन ठीक रहा, पर अगला ज़रूरी नहीं कि ठीक रहे। कमज़ोर जगह {place}{where} है: {title}।",
    "cause_foretold": (
        "अभी प्रोग्राम ठीक चलता है। जिस छोटे number format के बारे में आपने पूछा, उसमें ठीक नहीं चलेगा; कारण {place}{where} है: "
        "{title}।"
    ),
    "cause_warning": "कुछ फ़ेल नहीं होता, पर परिणामों पर भरोसा नहीं किया जा सकता। कारण {place}{where} है: {title}।",
    "line": "वह लाइन यह है: {code}",
    "mechanism": "होता क्या है: {what}",
    "measured": "नापा गया: {text}।",
    # -- what followed
    "spreads": "इस लाइन से ख़राबी फैलती है: {steps}।",
    "to_loss": "loss तक, जो {value} है ({place})",
    "to_outputs": "आउटपुट {names} तक, जो {value} है",
    "to_gradients": "backward pass में {names} के ग्रेडिएंट तक ({value})",
    "to_gradient_of": "backward pass में {names} के ग्रेडिएंट तक ({value})",
    "to_gradient": "backward pass में ग्रेडिएंट तक ({value})",
    "to_parameters": "optimizer के स्टेप से पैरामीटर {names} तक ({value})",
    "to_parameter": "optimizer के स्टेप से पैरामीटर {names} तक ({value})",
    "then": ", फिर ",
    # -- how sure it is
    "proof_step": (
        "पक्का करने के लिए numdebug ने वही स्टेप दोहराया। बिना बदलाव के वह उसी तरह फ़ेल होता है; सिर्फ़ {what} ठीक करने पर, बाक़ी "
        "सब वैसा ही रखकर, {result}।"
    ),
    "proof_step_line": "लाइन {lines}",
    "proof_step_lines": "लाइन {lines}",
    "proof_step_data": "डेटा",
    "all_finite": "loss और हर ग्रेडिएंट finite है",
    "all_finite_loss": "loss {loss} है और हर ग्रेडिएंट finite है",
    "output_finite": "आउटपुट finite है",
    "failure_gone": "ख़राबी चली जाती है",
    "proof_agrees": (
        "यह सुधार किसी सही परिणाम को नहीं बदलता: जहाँ मूल लाइन संख्या देती है, वहाँ सुधरी लाइन float64 में वही संख्या देती है "
        "(अंतर {error} तक)।"
    ),
    "proof_agrees_exactly": (
        "यह सुधार किसी सही परिणाम को नहीं बदलता: जहाँ मूल लाइन संख्या देती है, वहाँ सुधरी लाइन float64 में bit-दर-bit वही संख्या "
        "देती है।"
    ),
    "proof_lines": (
        "numdebug ने फ़ेल हुआ स्टेप दोहराया। लाइन {lines} साथ में ठीक करने पर ख़राबी चली जाती है; उनमें से सिर्फ़ एक ठीक करने पर "
        "नहीं।"
    ),
    "proof_program": "पक्का करने के लिए numdebug ने प्रोग्राम दोबारा चलाया, {change}: {result}।",
    "proof_program_losses": (
        "पक्का करने के लिए numdebug ने प्रोग्राम दोबारा चलाया, {change}: {result}, और loss {first} से {last} तक जाता है।"
    ),
    "with_repair": "सिर्फ़ इस बदलाव के साथ ({repair})",
    "with_rate": "सिर्फ़ learning rate को {factor} गुना करके",
    "fails_finite": "जो पहले फ़ेल होता था वह अब finite है",
    "fails_finite_steps": "सभी {steps} स्टेप finite हैं",
    "harm_gone": "नुक़सान ख़त्म हो जाता है",
    "proof_wider": (
        "numdebug ने स्टेप दोहराया: जैसा लिखा है वैसे चलाने पर वही ग़लत परिणाम फिर आता है; सिर्फ़ {lines} को float64 में चलाने पर "
        "{what} अपने आकार के {error} तक सही है।"
    ),
    "consumed": "परिणाम",
    "proof_seeds": (
        "numdebug ने प्रोग्राम कई बार चलाया। जैसा है वैसे चलाने पर रन अलग-अलग संख्याएँ देते हैं; इस बदलाव के साथ ({repair}) तुलना "
        "की गई सभी {count} संख्याएँ bit-दर-bit एक-सी हैं।"
    ),
    "proof_derivative": (
        "उसी forward pass का {framework} का अपना derivative numerical differences से मेल खाता है; यह backward नहीं खाता।"
    ),
    "proof_change": "सिर्फ़ इस एक बदलाव से ({change}) ग्रेडिएंट की सभी {count} random जाँचें सही बैठती हैं।",
    "proof_unchanged": (
        "{steps} स्टेप के बाद भी ये पैरामीटर bit-दर-bit वही हैं जो पहले स्टेप से पहले थे, और इन्हें कभी ग्रेडिएंट नहीं मिला, जबकि "
        "loss इन्हीं से निकलता है।"
    ),
    "proof_unread": (
        "{steps} स्टेप के बाद भी ये bit-दर-bit वही हैं जो शुरू में थे, जबकि backward pass इन्हें {norm} norm का ग्रेडिएंट देता है: "
        "कोई इन्हें update नहीं करता।"
    ),
    "proof_update": (
        "numdebug ने दर्ज संख्याओं पर update दोहराया। float64 में वह सभी {all} elements को हिलाता है; {format} में round होकर "
        "उनमें से {lost} वही रह जाते हैं।"
    ),
    "proof_overwritten": (
        "overwrite होने से पहले का मान रखने पर, बाक़ी सब वैसा ही रखकर, ग्रेडिएंट में उसके norm के {share}% का अंतर आता है।"
    ),
    "proof_memory": (
        "numdebug ने दर्ज ऑपरेशन इस memory में दूसरे बचे-खुचे मान रखकर दोहराए: परिणाम बदल गया। वही मान रखने पर नहीं बदला।"
    ),
    "proof_unscaled": "{scale} का loss scale पहले हटाने पर वही सीमा optimizer को मिले norm से {times} गुना बड़ा norm छोड़ती।",
    "proof_sum": "float64 में वही updates योग को हिलाते हैं, हर एक उसके {share} जितना।",
    "proof_equal": (
        "numdebug ने दोनों पक्ष float64 में फिर निकाले: जहाँ यह तुलना 'नहीं' कहती है, उन सभी {missed} जगहों पर वे मिलते हैं।"
    ),
    "proof_apart": "इस ऑपरेशन से पहले वही संख्याएँ अलग-अलग हैं, और float64 उन सबको अलग रखता है।",
    "proof_quotient": "वही ऑपरेशन, उन्हीं बिंदुओं पर, float64 में {exact} देते हैं, जबकि {format} में {seen} आता है।",
    "proof_same_memory": "ये {times} arrays असल में एक ही memory हैं, जिस पर {writes} बार लिखा गया; वे bit-दर-bit बराबर हैं।",
    "proof_whole": (
        "एक random दिशा में loss के numerical differences float64 में {numeric} देते हैं; backward pass {analytic} देता है।"
    ),
    "proof_still": "सिर्फ़ इस लाइन का सुधार आज़माया गया और उससे बात नहीं बनती: {what} तब भी finite नहीं होता।",
    "the_loss": "loss",
    "some_gradients": "{all} में से {bad} ग्रेडिएंट",
    "proof_other": "जाँच कैसे हुई: {text}।",
    "failed_other": "सुधार आज़माया गया, पर अकेला वह काफ़ी नहीं: {text}।",
    "untried": "दर्ज संख्याएँ यही कहती हैं; कोई सुधार आज़माया नहीं गया ({text})।",
    "untried_norepair": "दर्ज संख्याएँ यही कहती हैं। किसी एक लाइन का ऐसा सुधार नहीं है जिसे numdebug आज़मा सकता।",
    "untried_other": "इसका सुधार आज़माया नहीं गया: एक दूसरा बदलाव प्रोग्राम को पहले ही ठीक कर देता है।",
    "untried_written": "दर्ज संख्याएँ यही कहती हैं। बदलाव प्रोग्राम में लिखा नहीं जा सका, इसलिए आज़माया नहीं गया।",
    "untried_rerun": "दर्ज संख्याएँ यही कहती हैं। सुधार आज़माने के लिए प्रोग्राम दोबारा चलाना पड़ता, जो --no-rerun रोकता है।",
    # -- what to do
    "fix_patch": "{fix}। नीचे का patch यही करता है; प्रोग्राम के फ़ोल्डर में `git apply` से लगाएँ।",
    "fix_words": "{fix}। तैयार patch नहीं है; बदलाव हाथ से, {place} पर या उसके आसपास करना होगा।",
    "fix_none": "{fix}।",
    "check_partly": (
        "बदलाव के बाद `{command}` चलाएँ। अकेला यह बदलाव उस स्टेप को ठीक नहीं "
        "करता: वह रन आगे जो बताए, उसे भी सुधारें, जब तक स्टेप finite न हो।"
    ),
    "check_failed": "बदलाव के बाद `{command}` चलाएँ: यह ख़राबी नहीं दिखनी चाहिए, और जो स्टेप फ़ेल हुआ था वह finite होना चाहिए।",
    "check_failed_step": (
        "बदलाव के बाद `{command}` चलाएँ: यह ख़राबी नहीं दिखनी चाहिए, और संख्याएँ स्टेप {step} के बाद भी finite रहनी चाहिए।"
    ),
    "check_silent": "बदलाव के बाद `{command}` चलाएँ: {place} अब report में नहीं आना चाहिए।",
    "check_losses": "loss फिर लगभग वैसे ही चलना चाहिए जैसे आज़माइश में चला: {first} से {last} तक।",
    "more": "पूरी जानकारी: `numdebug bug {bug} --language hi`",
    # -- what else
    "another": "एक और ख़राबी {place}{where} है: {title}।",
    "another_measured": "वहाँ नापा गया: {text}।",
    "rest": "ख़राबियाँ और भी हैं; report में सब लिखी हैं।",
    "ruled_follows": "इस पर भी विचार हुआ: {title}। कारण यह नहीं है: ऊपर वाले सुधार से यह भी चला जाता है।",
    "ruled_consequence": "यह भी दिखा: {title}। यह ऊपर बताए कारण का नतीजा है।",
    "ruled_later": "इस पर भी विचार हुआ: {title}। यह गणना में बाद में आता है, इसलिए शुरुआत यहाँ से नहीं हो सकती।",
    "ruled_other": "इस पर भी विचार हुआ: {title}। इसे नकारा गया: {text}।",
    "looked": "यह भी खोजा गया, पर नहीं मिला: {topics}।",
    "looked_clean": "क्या-क्या खोजा गया: {topics}।",
    "topic_range": "overflow, underflow और NaN",
    "topic_digits": "खोए हुए अंक",
    "topic_gradients": "ग़लत, ग़ायब, सिकुड़ते या बेकाबू बढ़ते ग्रेडिएंट",
    "topic_training": "ट्रेनिंग की ग़लतियाँ (learning rate, loss के इनपुट, rows का क्रम, evaluation में training mode)",
    "topic_repeat": "ऐसी randomness जिसे कोई seed नहीं बाँधता",
    "hazard": "एक जोखिम, जिसने इस रन में नुक़सान नहीं किया, {place}{where} है: {title}।",
    "guessed": "प्रोग्राम अपना मॉडल ख़ुद नहीं चलाता, इसलिए numdebug ने {call} चलाया।",
    "note": "ध्यान दें: {text}।",
    # -- nothing found
    "clean": "{path} में कुछ ग़लत नहीं मिला: {seen}।",
    "seen_backward": "ट्रेनिंग के {steps} स्टेप ({ops} ऑपरेशन) देखे गए, forward और backward दोनों",
    "seen_backward_one": "एक स्टेप ({ops} ऑपरेशन) देखा गया, forward और backward दोनों",
    "seen_forward": "{steps} स्टेप ({ops} ऑपरेशन) देखे गए, सिर्फ़ forward",
    "seen_forward_one": "एक forward pass ({ops} ऑपरेशन) देखा गया",
    "no_proof": "इससे यह साबित नहीं होता कि कुछ ग़लत है ही नहीं: यह बात सिर्फ़ इसी रन के इनपुट, seed और लंबाई के लिए है।",
    "short": "रन बीच में रुका ({why}); आगे क्या होता, वह देखा नहीं गया।",
    "next_gradients": (
        "और जाँचने के लिए `{command} --check-gradients` चलाएँ: यह हर ग्रेडिएंट की तुलना float64 में numerical differences से करता "
        "है।"
    ),
    "next_float16": "और जाँचने के लिए `{command} --as float16` चलाएँ: यह बताता है कि half precision में क्या होगा।",
    "next_longer": "और जाँचने के लिए इसे ज़्यादा देर (--max-steps, --timeout) या दूसरे डेटा पर चलाएँ।",
    "ended_raised": "पर प्रोग्राम ठीक से ख़त्म नहीं हुआ: {error} आया{where}{message}।",
    "ended_badly": "पर प्रोग्राम ठीक से ख़त्म नहीं हुआ: {why}।",
    # -- nothing seen
    "raised": "संख्याओं के बारे में कुछ कहा नहीं जा सका: {path} में forward या backward pass से पहले ही {error} आया{where}{message}।",
    "raised_do": "पहले उसे ठीक करें, फिर `{command}` दोबारा चलाएँ।",
    "at_line": " ({place})",
    "message": " ({text})",
    "missing": "{path} शुरू नहीं हो सका: उसे module {module} चाहिए, जो यहाँ install नहीं है।",
    "missing_do": "उसे `{install}` से install करें और `{command}` दोबारा चलाएँ।",
    "slow": "संख्याओं के बारे में कुछ कहा नहीं जा सका: {path} को forward या backward pass से पहले ही रोकना पड़ा ({why})।",
    "slow_do": "उसे ज़्यादा समय दें (--timeout SECONDS), या पहले स्टेप से पहले का काम घटाएँ।",
    "interrupted": "संख्याओं के बारे में कुछ कहा नहीं जा सका: {path} को forward या backward pass से पहले ही बीच में रोक दिया गया।",
    "interrupted_do": "`{command}` दोबारा चलाएँ और उसे पहले स्टेप तक पहुँचने दें।",
    "ended": "संख्याओं के बारे में कुछ कहा नहीं जा सका: {path} forward या backward pass से पहले ही ख़त्म हो गया ({why})।",
    "ended_do": "पता करें कि वह वहाँ क्यों रुकता है; अगर उसे arguments चाहिए तो `--` के बाद दें। फिर `{command}` दोबारा चलाएँ।",
    "uncalled": (
        "{path} अंत तक चला, पर कोई forward या backward pass नहीं हुआ: उसमें सिर्फ़ फ़ंक्शन और मॉडल परिभाषित हैं, और उनमें से किसी "
        "को चलाया नहीं जा सका।"
    ),
    "uncalled_do": "बताएँ कि क्या चलाना है और किस इनपुट पर: `{call}`",
    "unexplained": (
        "{symptom}, स्टेप {step} से। वह सबसे पहले {place} पर {op} से बना ({how}), पर numdebug का जाना हुआ कोई bug इसे नहीं समझाता।"
    ),
    "unexplained_do": "देखें कि {place} में क्या जाता है; और कृपया इसे report करें, क्योंकि numdebug को यह पता होना चाहिए।",
    "unrecorded": "{symptom}, स्टेप {step} से, पर वह स्टेप दर्ज नहीं हो सका।",
    "unrecorded_do": "प्रोग्राम में हर seed तय करें ताकि दूसरा रन वही स्टेप दोहराए, और --no-rerun न लगाएँ।",
    "left_out": "{symptom}, स्टेप {step} से; जो मिला वह आपके कहने पर छोड़ दिया गया (--select या --ignore)।",
    "left_out_do": "उसे देखने के लिए `{command}` बिना --select और --ignore के चलाएँ।",
    "other": "{text}।",
    # -- comparisons
    "same": "दो तरीक़ों से निकालने पर ({a} | {b}) संख्याएँ bit-दर-bit एक-सी हैं।",
    "differ_explained": "दो तरीक़ों से निकालने पर ({a} | {b}) संख्याएँ एक-सी नहीं हैं, पर यह bug नहीं है: {why}।",
    "differ_real": "{a} और {b} अलग-अलग चीज़ निकालते हैं: {why}।",
    "why_rounding-difference": "अंतर दूसरे क्रम में हुई rounding से आया है",
    "why_dtype-mismatch": "दोनों अलग-अलग number format में चलते हैं, और अंतर मोटे फ़ॉर्मैट का है",
    "why_reduced-precision-matmul": "अंतर छोटे operand वाले matrix product का है",
    "why_flush-to-zero": "एक पक्ष subnormal (फ़ॉर्मैट की सबसे छोटी) संख्याओं को 0 कर देता है, और अंतर बस इतना ही है",
    "why_nondeterminism": "हर रन में योग दूसरे क्रम में लिए जाते हैं",
    "why_real": "अंतर इतना बड़ा है कि rounding से नहीं समझाया जा सकता",
    "why_other": "{text}",
    "figures": (
        "{output} में {size} में से {differing} elements अलग हैं, ज़्यादा से ज़्यादा {largest} से ({format} के {ulps} ulp; ulp "
        "यानी दो पड़ोसी float के बीच की दूरी)।"
    ),
    "rounding_allows": "यह इस गणना की सामान्य rounding error का {ratio} गुना है, जो अपेक्षित है।",
    "rounding_times": "rounding जितना समझाती है, यह उसका {ratio} गुना है।",
    "predicted": "यह दर्ज ऑपरेशनों से निकाला गया है, ऐसे device पर चलाकर नहीं।",
    "parted": "दोनों {op} पर अलग होते हैं ({places}): {what}।",
    "parted_argument": "{op} का {argument} एक पक्ष में {was} है और दूसरे में {now}",
    "parted_proof": "यह आज़माया गया: {text}।",
    "goes_with": "{how} से अंतर चला जाता है।",
    "tolerance": "test में इतनी छूट दें: `{assertion}`",
    "compare_check": "वहाँ दोनों पक्ष एक-से करें और वही `numdebug compare` दोबारा चलाएँ: सिर्फ़ rounding बचनी चाहिए।",
}
